-- What a library inside the service would do with a table of its own, at its
-- best: the record before the handler runs, the reply after it, a commit each.
-- Ids are in the order of time, as those of UUIDv7 keys.
\set n :n + 1
\set high :base + :n * 256 + :client_id
\set low random(1, 9223372036854775807)
\set token random(1, 9223372036854775807)
INSERT INTO floor_records (id, token, state, fingerprint, created_at, lease_until, expires_at) VALUES ((lpad(to_hex(:high::bigint), 16, '0') || lpad(to_hex(:low::bigint), 16, '0'))::uuid, :token, 1, '\x9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08', now(), now() + interval '30 s', now() + interval '24 h') ON CONFLICT (id) DO NOTHING;
UPDATE floor_records SET state = 2, completed_at = now(), reply = '\x@REPLY@' WHERE id = (lpad(to_hex(:high::bigint), 16, '0') || lpad(to_hex(:low::bigint), 16, '0'))::uuid AND token = :token AND state = 1;
