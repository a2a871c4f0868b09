-- serves_from: 3
-- Entries of the audit log that stand for many records: what was sealed anew. NOT VALID: the rows
-- that are there satisfy the former bound, and need no scan. A constant default rewrites nothing.
ALTER TABLE audit_log
  DROP CONSTRAINT IF EXISTS audit_log_action_known,
  -- 5: sealed anew, `records` of them; the record is the one with the highest id.
  ADD CONSTRAINT audit_log_action_known CHECK (action BETWEEN 1 AND 5) NOT VALID,
  ADD COLUMN IF NOT EXISTS records integer NOT NULL DEFAULT 1;
