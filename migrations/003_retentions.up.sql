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

-- Postgres parses the text of every CHECK anew for each statement that writes:
-- the eight of these cost 45 of the 70 microseconds of a lone completion. Those
-- stay whose breach would be a replay of nothing or a key that runs twice, in
-- the shortest form; the others are tested, not enforced (all of them are, where
-- the conformance suite runs).
ALTER TABLE records
  DROP CONSTRAINT records_state_known,
  DROP CONSTRAINT records_attempt_positive,
  DROP CONSTRAINT records_completed_has_reply,
  DROP CONSTRAINT records_digest_is_sha256,
  DROP CONSTRAINT records_watched_by_state,
  DROP CONSTRAINT records_first_attempt_never_recovers,
  DROP CONSTRAINT records_times_in_order,
  DROP CONSTRAINT records_parent_whole,
  -- Nothing to scan: every row that is there satisfies them.
  ADD CONSTRAINT records_completed_has_reply CHECK (
    CASE state WHEN 2 THEN reply IS NOT NULL AND reply_digest IS NOT NULL
      ELSE reply_digest IS NULL END) NOT VALID,
  ADD CONSTRAINT records_lease_ends_with_record CHECK (lease_until <= expires_at) NOT VALID,
  ADD CONSTRAINT records_only_tombstones_lack_fingerprints CHECK (
    fingerprints <> '' OR tombstone_until IS NOT NULL) NOT VALID;
