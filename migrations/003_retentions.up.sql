-- A reply's own retention, and tombstones. All three columns are NULL for a
-- record that has neither, and then cost no byte: the row has a null bitmap
-- anyway. No index names them, so completions stay HOT.
ALTER TABLE records
  -- From here on a replay has no content; the sweep drops it then.
  ADD COLUMN reply_until timestamptz,
  -- A forgotten record's key is refused until here. The sweep then leaves state
  -- 3 and no fingerprint, and nothing else that could be done without.
  ADD COLUMN tombstone_until timestamptz,
  -- SHA-256 of reply once its content was dropped. reply_digest stays that of
  -- the reply as it was completed, to recognise the same reply sent again.
  ADD COLUMN status_digest bytea;

-- Nothing to scan: every row that is there satisfies it.
ALTER TABLE records ADD CONSTRAINT records_retentions CHECK (
  CASE WHEN num_nonnulls(reply_until, tombstone_until, status_digest) = 0
    THEN octet_length(fingerprints) > 0
    ELSE coalesce(tombstone_until > expires_at, true)
      AND (status_digest IS NULL
        OR (state = 2 AND reply_until IS NOT NULL AND octet_length(status_digest) = 32))
      AND (octet_length(fingerprints) > 0
        OR (state = 3 AND tombstone_until IS NOT NULL
          AND num_nonnulls(request_token, parent_key, labels, release_reason) = 0))
  END) NOT VALID;
