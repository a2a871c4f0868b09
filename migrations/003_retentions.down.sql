-- Keys under a tombstone can run again afterwards.
DELETE FROM records WHERE fingerprints = '';
-- What is left of a reply becomes the reply.
UPDATE records SET reply_digest = status_digest WHERE status_digest IS NOT NULL;
ALTER TABLE records
  DROP CONSTRAINT records_completed_has_reply,
  DROP CONSTRAINT records_lease_ends_with_record,
  DROP CONSTRAINT records_only_tombstones_lack_fingerprints,
  DROP COLUMN status_digest,
  DROP COLUMN tombstone_until,
  DROP COLUMN reply_until;
ALTER TABLE records
  ADD CONSTRAINT records_state_known CHECK (state BETWEEN 1 AND 4),
  ADD CONSTRAINT records_attempt_positive CHECK (attempt >= 1),
  ADD CONSTRAINT records_completed_has_reply CHECK (
    CASE WHEN state = 2
      THEN num_nulls(completed_at, reply, reply_digest) = 0
      ELSE num_nonnulls(completed_at, reply, reply_digest) = 0
    END),
  ADD CONSTRAINT records_digest_is_sha256 CHECK (octet_length(reply_digest) = 32),
  ADD CONSTRAINT records_watched_by_state CHECK (
    CASE state WHEN 4 THEN watched WHEN 1 THEN true ELSE NOT watched END),
  ADD CONSTRAINT records_first_attempt_never_recovers CHECK (attempt > 1 OR NOT recovering),
  ADD CONSTRAINT records_times_in_order CHECK (
    created_at <= expires_at AND lease_until <= expires_at),
  ADD CONSTRAINT records_parent_whole CHECK (
    num_nulls(parent_namespace, parent_scope, parent_operation, parent_key) IN (0, 4));
