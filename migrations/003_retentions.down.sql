-- Keys under a tombstone can run again afterwards.
DELETE FROM records WHERE octet_length(fingerprints) = 0;
-- What is left of a reply becomes the reply.
UPDATE records SET reply_digest = status_digest WHERE status_digest IS NOT NULL;
ALTER TABLE records
  DROP CONSTRAINT records_retentions,
  DROP COLUMN status_digest,
  DROP COLUMN tombstone_until,
  DROP COLUMN reply_until;
