-- The completion ledger of grpc-idempotency, for an application's own database:
-- one row per committed operation, written in the transaction of its effects. The
-- primary key prevents a second effect: never write it with OR IGNORE or OR
-- REPLACE, and delete rows by their sweepable_at only.
CREATE TABLE idempotency_completions (
  -- 16 bytes.
  record_id BLOB NOT NULL PRIMARY KEY CHECK (length(record_id) = 16),
  -- Compared on every read: two keys with one id are an error, never a reply.
  namespace TEXT NOT NULL,
  scope TEXT NOT NULL,
  operation TEXT NOT NULL,
  key TEXT NOT NULL,
  -- Version and digest, repeated.
  fingerprints BLOB NOT NULL,
  -- The attempt that committed.
  attempt INTEGER NOT NULL CHECK (attempt >= 1),
  -- Microseconds since 1970, UTC. A row is kept for twice its record's life.
  created_at INTEGER NOT NULL,
  sweepable_at INTEGER NOT NULL CHECK (sweepable_at > created_at),
  -- SHA-256 of reply, which detects damage.
  reply_digest BLOB NOT NULL CHECK (length(reply_digest) = 32),
  -- An idempotency.v1.Reply.
  reply BLOB NOT NULL
) STRICT;

CREATE INDEX idempotency_completions_sweepable ON idempotency_completions (sweepable_at);
