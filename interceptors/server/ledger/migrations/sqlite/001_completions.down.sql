-- Only if no guard uses a ledger in this database any more: without the rows a
-- committed operation may run again.
DROP TABLE idempotency_completions;
