-- One row per record: what is remembered about (namespace, scope, operation, key).
--
-- Updates are HOT (no index is written) as long as they change no column that
-- an index names, in its columns or its predicate. Completing a record is the
-- hottest update there is, so no index may name what it changes: state, reply,
-- reply_digest, completed_at.
CREATE TABLE records (
  -- 48 bits of a UUIDv7 key's own time (top bit 0), or a 1 bit; the rest is a
  -- hash of the four parts below. New rows thus land at the right edge of the
  -- index: twice the speed and a sixth of the WAL of a random id.
  id uuid PRIMARY KEY,

  -- Compared on every read: two keys with one id are an error, never a replay.
  namespace text COLLATE "C" NOT NULL,
  scope text COLLATE "C" NOT NULL,
  operation text COLLATE "C" NOT NULL,
  key text COLLATE "C" NOT NULL,

  -- 1 RESERVED, 2 COMPLETED, 3 RELEASED, 4 UNKNOWN.
  state smallint NOT NULL,
  -- A RESERVED record whose lease ran out: false, the next caller takes it
  -- over; true, its outcome is unknown. As the first reservation said.
  require_recovery boolean NOT NULL,
  -- The current grant is a recovery grant.
  recovering boolean NOT NULL DEFAULT false,
  -- Found by people and gauges through an index of its own: UNKNOWN records,
  -- and reservations that the sweeper found open for long. A column apart from
  -- state, because an index on state would cost every completion its HOT update.
  watched boolean NOT NULL DEFAULT false,

  -- Counts the grants; usable downstream as a fencing number.
  attempt integer NOT NULL,
  -- Of the current grant, or of the last one: only it authorises a write.
  token uuid NOT NULL,
  -- What the caller of that grant sent, to recognise a repeat of the same call.
  request_token uuid,

  created_at timestamptz NOT NULL,
  lease_until timestamptz NOT NULL,
  -- Set by the first reservation; only a recovery grant moves it.
  expires_at timestamptz NOT NULL,
  completed_at timestamptz,

  -- Version and digest, repeated.
  fingerprints bytea NOT NULL,
  -- SHA-256 of reply: recognises the same reply sent again, and damage.
  reply_digest bytea,
  reply bytea,

  parent_namespace text COLLATE "C",
  parent_scope text COLLATE "C",
  parent_operation text COLLATE "C",
  parent_key text COLLATE "C",
  labels jsonb,
  release_reason text,

  CONSTRAINT records_state_known CHECK (state BETWEEN 1 AND 4),
  CONSTRAINT records_attempt_positive CHECK (attempt >= 1),
  CONSTRAINT records_completed_has_reply CHECK (
    CASE WHEN state = 2
      THEN num_nulls(completed_at, reply, reply_digest) = 0
      ELSE num_nonnulls(completed_at, reply, reply_digest) = 0
    END),
  CONSTRAINT records_digest_is_sha256 CHECK (octet_length(reply_digest) = 32),
  CONSTRAINT records_watched_by_state CHECK (
    CASE state WHEN 4 THEN watched WHEN 1 THEN true ELSE NOT watched END),
  CONSTRAINT records_first_attempt_never_recovers CHECK (attempt > 1 OR NOT recovering),
  -- A lease ends with the record at the latest.
  CONSTRAINT records_times_in_order CHECK (created_at <= expires_at AND lease_until <= expires_at),
  CONSTRAINT records_parent_whole CHECK (
    num_nulls(parent_namespace, parent_scope, parent_operation, parent_key) IN (0, 4))
) WITH (
  -- Reserved size / (reserved + completed size): the completed version fits
  -- beside the reserved one, on the same page. At 28 every completion is HOT,
  -- at 100 none.
  fillfactor = 28,
  -- The defaults wait for a fifth of the table to change, and then sleep more
  -- than they work: under churn they never caught up.
  autovacuum_vacuum_scale_factor = 0.02,
  autovacuum_vacuum_threshold = 2000,
  autovacuum_vacuum_insert_scale_factor = 0.02,
  autovacuum_analyze_scale_factor = 0.02,
  autovacuum_vacuum_cost_delay = 0,
  toast.autovacuum_vacuum_scale_factor = 0.02,
  toast.autovacuum_vacuum_threshold = 2000,
  toast.autovacuum_vacuum_cost_delay = 0
);

-- lz4 packs replies of a few kilobytes 1.4 times as fast. Some builds of the
-- server leave it out; theirs then keep the default.
DO $$
BEGIN
  ALTER TABLE records ALTER COLUMN reply SET COMPRESSION lz4;
EXCEPTION WHEN feature_not_supported OR invalid_parameter_value THEN
  RAISE NOTICE 'lz4 is not built into this server; replies are packed with its default';
END
$$;

-- The sweep walks records from the oldest to the newest. Ids of UUIDv7 keys
-- are in that order already; hashed ones (top bit 1) need an index that is.
CREATE INDEX records_hashed_by_age ON records (created_at, id)
  WHERE id >= '80000000-0000-0000-0000-000000000000';

CREATE INDEX records_watched ON records (created_at) WHERE watched;
