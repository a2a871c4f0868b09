-- NOT VALID: a larger one stays until it is replaced or its record ends.
ALTER TABLE checkpoints
  DROP CONSTRAINT checkpoints_size,
  ADD CONSTRAINT checkpoints_size CHECK (octet_length(checkpoint) <= 4096) NOT VALID;
