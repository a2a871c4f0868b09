-- The completion ledger of grpc-idempotency, for an application's own database:
-- one row per committed operation, written in the transaction of its effects. The
-- primary key prevents a second effect: a second attempt's INSERT fails, and its
-- transaction with it. So
--
--   * never write it with ON CONFLICT DO NOTHING;
--   * the key stays on record_id alone, and is not deferrable. The table can
--     therefore not be partitioned by time (the partition's column would have
--     to be part of the key, and the same operation would fit into two);
--   * only idempotency_sweep_completions() deletes rows: a row that is deleted
--     too early lets its operation run again.
--
-- The application's role needs INSERT, the guard's SELECT, the sweep's SELECT,
-- DELETE and UPDATE (sweepable_at): FOR UPDATE needs UPDATE of one column, though
-- no value is changed. A guard finds the table through its role's search_path.
CREATE TABLE idempotency_completions (
  record_id uuid PRIMARY KEY,

  -- Compared on every read: two keys with one id are an error, never a reply.
  namespace text NOT NULL,
  scope text NOT NULL,
  operation text NOT NULL,
  key text NOT NULL,

  -- Version and digest, repeated.
  fingerprints bytea NOT NULL,
  -- The attempt that committed.
  attempt bigint NOT NULL CHECK (attempt >= 1),

  -- An idempotency.v1.Reply, and its SHA-256, which detects damage.
  reply bytea NOT NULL,
  reply_digest bytea NOT NULL CHECK (octet_length(reply_digest) = 32),

  created_at timestamptz NOT NULL,
  -- At least twice the record's life after created_at: by then the record has
  -- expired and no guard queries the row, for any clocks of the two databases;
  -- unless the record has stayed UNKNOWN, which does not expire.
  sweepable_at timestamptz NOT NULL CHECK (sweepable_at > created_at)
);

CREATE INDEX idempotency_completions_sweepable ON idempotency_completions (sweepable_at);

-- Deletes up to `batch_rows` expired rows, the oldest first, and returns their
-- number. Call it from a timer until it returns less than a batch, each call in
-- its own transaction.
CREATE FUNCTION idempotency_sweep_completions(batch_rows integer DEFAULT 1000) RETURNS bigint
LANGUAGE sql AS $$
  WITH swept AS (
    DELETE FROM idempotency_completions
     WHERE record_id = ANY (ARRAY(
             SELECT record_id FROM idempotency_completions
              WHERE sweepable_at < clock_timestamp()
              ORDER BY sweepable_at LIMIT batch_rows
                FOR UPDATE SKIP LOCKED))
       AND sweepable_at < clock_timestamp()
    RETURNING 1)
  SELECT count(*) FROM swept;
$$;
