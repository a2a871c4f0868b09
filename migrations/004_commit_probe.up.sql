-- serves_from: 3
-- outside_transaction
-- What health asks, and a gauge that is cheap at any size. The index is built while
-- traffic goes on, which no transaction may do; so each statement can be repeated.

-- One row, which a daemon that has had no commit lately writes to see whether it gets
-- one. While a synchronous standby is away the first to try waits with the row locked,
-- and the others give up at the lock: one session is lost to this, not one a try.
CREATE TABLE IF NOT EXISTS commit_probe (
  id boolean PRIMARY KEY,
  written_at timestamptz NOT NULL,

  CONSTRAINT commit_probe_one_row CHECK (id)
) WITH (fillfactor = 10);

-- A reservation under a live lease that the sweep found open for a minute and more.
-- Apart from watched, which since then is set for UNKNOWN records alone: either gauge
-- reads an index of its own and meets nothing of the other's. Completions clear it, and
-- that costs them their HOT update only where it was set. Programs of version 3 set
-- watched for such reservations; the sweep tidies up after them.
ALTER TABLE records ADD COLUMN IF NOT EXISTS open_for_long boolean NOT NULL DEFAULT false;

DROP INDEX CONCURRENTLY IF EXISTS records_open_for_long;

CREATE INDEX CONCURRENTLY records_open_for_long ON records (created_at) WHERE open_for_long;
