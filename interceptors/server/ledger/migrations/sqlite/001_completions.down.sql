-- Only where no guard has a ledger on this database any more: without the rows
-- an operation that committed may run again.
DROP TABLE idempotency_completions;
