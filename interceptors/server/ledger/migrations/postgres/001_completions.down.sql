-- Only where no guard has a ledger on this database any more: without the rows
-- an operation that committed may run again.
DROP FUNCTION idempotency_sweep_completions(integer);
DROP TABLE idempotency_completions;
