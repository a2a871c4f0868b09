-- What an attempt left for the next one. Apart from records: a kilobyte in the
-- row cost every third completion its HOT update and the table eleven times its
-- size. No foreign key: its trigger would fire for each swept row, and nearly
-- none has a checkpoint; the statements that remove records remove these too.
CREATE TABLE checkpoints (
  id uuid PRIMARY KEY,
  -- Which life of the record it belongs to: one left from before the record was
  -- forgotten and started afresh is never handed out.
  record_created_at timestamptz NOT NULL,
  checkpoint bytea NOT NULL,

  CONSTRAINT checkpoints_size CHECK (octet_length(checkpoint) <= 4096)
) WITH (
  -- Replaced with every heartbeat that carries one.
  fillfactor = 50,
  autovacuum_vacuum_scale_factor = 0.02,
  autovacuum_vacuum_threshold = 2000,
  autovacuum_vacuum_cost_delay = 0
);
