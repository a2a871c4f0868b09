"""Fills a table of records as years of use would have left it."""

import time

# The same values as in bench/record_requests.cc.
NAMESPACE = "bench"
SCOPE = "tenant-42"
OPERATION = "/charges.v1.Charges/Charge"

_CHUNK = 500_000


def _part(text):
    """A part of a record key as it goes into the hash: length, then bytes."""
    data = text.encode()
    return len(data).to_bytes(4, "big") + data


_PREFIX = (_part(NAMESPACE) + _part(SCOPE) + _part(OPERATION) + (36).to_bytes(4, "big")).hex()

# RecordIdFor() of core/record_key.cc, for a key that is a UUID.
ORDERED_ID = (
    "(substr(replace({key}, '-', ''), 1, 12)"
    f" || encode(substr(sha256('\\x{_PREFIX}'::bytea || convert_to({{key}}, 'UTF8')), 1, 10),"
    " 'hex'))::uuid")
_HASH = f"substr(sha256('\\x{_PREFIX}'::bytea || convert_to({{key}}, 'UTF8')), 1, 16)"
HASHED_ID = f"encode(set_byte({_HASH}, 0, get_byte({_HASH}, 0) | 128), 'hex')::uuid"

# A v1.Reply with a body of 256 bytes and FULL content.
_REPLY = "2280025a" + "5a" * 255 + "3801"

_INSERT = """
SET synchronous_commit = off;
INSERT INTO idempotency.records (
  id, namespace, scope, operation, key, state, require_recovery, attempt, token, request_token,
  created_at, lease_until, expires_at, completed_at, fingerprints, reply_digest, reply)
SELECT {id}, '{namespace}', '{scope}', '{operation}', k.key, 2, false, 1, gen_random_uuid(),
  gen_random_uuid(), k.at, k.at + interval '30 s', k.at + interval '{retention} s',
  k.at + interval '5 ms',
  '\\x0000000120'::bytea || sha256(k.key::bytea), sha256('\\x{reply}'::bytea), '\\x{reply}'::bytea
FROM (
  SELECT {key} AS key, to_timestamp(n.ms / 1000.0) AS at
  FROM (SELECT i, {from_ms} + (i * {span_ms}::numeric / {rows})::bigint AS ms
        FROM generate_series({first}::bigint, {last}::bigint) i) n
  CROSS JOIN LATERAL (SELECT md5(n.i::text || '{seed}') AS hex) r) k
{order};
"""

_ORDERED_KEY = ("(lpad(to_hex(n.ms), 12, '0') || '7' || substr(r.hex, 1, 3) || '8'"
                " || substr(r.hex, 4, 15))::uuid::text")
_HASHED_KEY = ("(substr(r.hex, 1, 12) || '4' || substr(r.hex, 13, 3) || '8'"
               " || substr(r.hex, 16, 15))::uuid::text")


class Filling:
    """Completed records in a migrated database of `cluster`."""

    def __init__(self, cluster, database, log):
        self._cluster = cluster
        self._database = database
        self._log = log

    def check_ids(self):
        """Fails unless the ids computed here are those of the existing records."""
        wrong = self._cluster.sql(
            "SELECT count(*), count(*) FILTER (WHERE r.id <> CASE WHEN substr(r.key, 15, 1) = '7'"
            f" THEN {ORDERED_ID.format(key='r.key')} ELSE {HASHED_ID.format(key='r.key')} END)"
            " FROM idempotency.records r", self._database)
        seen, differing = (int(count) for count in wrong.split("|"))
        if seen == 0 or differing != 0:
            raise RuntimeError(f"{differing} of {seen} record ids are not as computed here")

    def add(self, rows, hashed=False, age_s=12 * 3600, span_s=12 * 3600, retention_s=24 * 3600):
        """`rows` records, made evenly over `span_s`, the oldest `age_s` ago.

        Completed rows of a live table are where reserved ones have made room
        for them: pages are 72 % full, not 28 % as right after an insertion. So
        the table is filled with that density, and set back.
        """
        options = self._cluster.sql(
            "SELECT option FROM pg_class, unnest(reloptions) option WHERE oid ="
            " 'idempotency.records'::regclass AND option LIKE 'fillfactor=%'", self._database)
        self._cluster.sql("ALTER TABLE idempotency.records SET (fillfactor = 72)", self._database)
        key = _HASHED_KEY if hashed else _ORDERED_KEY
        from_ms = int((time.time() - age_s) * 1000)
        for first in range(0, rows, _CHUNK):
            self._cluster.sql(_INSERT.format(
                id=(HASHED_ID if hashed else ORDERED_ID).format(key="k.key"), key=key,
                namespace=NAMESPACE, scope=SCOPE, operation=OPERATION, retention=retention_s,
                reply=_REPLY, from_ms=from_ms, span_ms=span_s * 1000, rows=rows, first=first,
                last=min(first + _CHUNK, rows) - 1, seed=f"{self._database}/{hashed}",
                order="ORDER BY 1" if hashed else ""), self._database)
            self._log(f"{min(first + _CHUNK, rows):,} of {rows:,} rows")
        self._cluster.sql(
            f"ALTER TABLE idempotency.records SET ({options})" if options
            else "ALTER TABLE idempotency.records RESET (fillfactor)", self._database)

    def vacuum(self):
        """As autovacuum would have, long ago."""
        self._log("VACUUM ANALYZE")
        self._cluster.sql("VACUUM ANALYZE idempotency.records", self._database)
        self._cluster.sql("CHECKPOINT", self._database)
