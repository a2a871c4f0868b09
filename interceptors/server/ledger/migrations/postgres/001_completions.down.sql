-- Only if no guard uses a ledger in this database any more: without the rows a
-- committed operation may run again.
DROP FUNCTION idempotency_sweep_completions(integer);
DROP TABLE idempotency_completions;
