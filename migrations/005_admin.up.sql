-- serves_from: 3
-- outside_transaction
-- Lists for administrators, and the log of what they do. Programs of before write and read
-- what they did; the indexes name only columns that no completion changes, so completions
-- stay HOT.

-- Every list and purge walks one of these, so that a page reads a bounded number of rows.
DROP INDEX CONCURRENTLY IF EXISTS records_by_scope;

CREATE INDEX CONCURRENTLY records_by_scope ON records (namespace, scope, id);

-- State as a column of an index would cost every completion its HOT update. UNKNOWN records
-- have watched instead, which completions of other records do not change; RESERVED ones are
-- found by scope. The cast keeps the planner from records_watched, which is in another order.
DROP INDEX CONCURRENTLY IF EXISTS records_unknown;

CREATE INDEX CONCURRENTLY records_unknown ON records (namespace, id) WHERE watched::integer = 1;

DROP INDEX CONCURRENTLY IF EXISTS records_by_parent;

CREATE INDEX CONCURRENTLY records_by_parent ON records (parent_key, id)
  WHERE parent_key IS NOT NULL;

-- The key of the HMACs in audit_log: 244 random bits of the server's generator.
CREATE TABLE IF NOT EXISTS audit_key (
  id boolean PRIMARY KEY,
  key bytea NOT NULL,

  CONSTRAINT audit_key_one_row CHECK (id),
  CONSTRAINT audit_key_size CHECK (octet_length(key) = 32)
);

INSERT INTO audit_key (id, key)
  VALUES (true, decode(replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', ''), 'hex'))
  ON CONFLICT (id) DO NOTHING;

-- What administrators did, a row for each record. Only added to: the role of the daemons has no
-- other right (--grant_to), and the trigger refuses the owner too. No foreign key: most of the
-- records are gone.
CREATE TABLE IF NOT EXISTS audit_log (
  sequence bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  at timestamptz NOT NULL,
  actor text NOT NULL,
  reason text NOT NULL,
  -- 1 resolved as COMPLETED, 2 resolved as RELEASED, 3 purged, 4 purged to a tombstone.
  action smallint NOT NULL,
  forced boolean NOT NULL,
  namespace text COLLATE "C" NOT NULL,
  record_id uuid NOT NULL,
  -- HMAC-SHA256 of the record key under audit_key: server/store/audit_hmac.h.
  key_hmac bytea NOT NULL,
  -- The record before.
  state smallint NOT NULL,
  attempt integer NOT NULL,

  CONSTRAINT audit_log_action_known CHECK (action BETWEEN 1 AND 4),
  CONSTRAINT audit_log_hmac_size CHECK (octet_length(key_hmac) = 32)
);

CREATE INDEX IF NOT EXISTS audit_log_by_namespace ON audit_log (namespace, sequence);

CREATE INDEX IF NOT EXISTS audit_log_by_record ON audit_log (record_id);

CREATE OR REPLACE FUNCTION audit_log_refuse() RETURNS trigger LANGUAGE plpgsql AS
  $$ BEGIN RAISE EXCEPTION 'audit_log is only added to' USING ERRCODE = 'check_violation'; END $$;

CREATE OR REPLACE TRIGGER audit_log_only_added_to BEFORE UPDATE OR DELETE OR TRUNCATE ON audit_log
  FOR EACH STATEMENT EXECUTE FUNCTION audit_log_refuse();
