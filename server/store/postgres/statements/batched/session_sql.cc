#include "server/store/postgres/statements/batched/sql.h"

namespace idempotency::internal::batched_sql {

const std::string_view kSession = R"sql(
-- statement: begin_session
-- $1 milliseconds. Takes the lock that excludes downgrades; returns whether it was taken,
-- and how many statements of this role and application run for longer than that.
SELECT pg_try_advisory_lock_shared({serve_lock}),
  (SELECT count(*) FROM pg_stat_activity a
   WHERE a.datname = current_database() AND a.usename = current_user
     AND a.application_name = current_setting('application_name')
     AND a.state = 'active'
     AND a.query_start < clock_timestamp() - $1::integer * interval '1 millisecond')

-- statement: read_schema
-- Returns when the first migration was applied or NULL, whether all of this program's
-- are applied, and whether there is a newer one that it may not serve.
SELECT min(m.applied_at) FILTER (WHERE m.version = 1),
  count(*) FILTER (WHERE m.version <= {known}) = {known},
  coalesce(bool_or(m.version > {known}
    AND coalesce((to_jsonb(m) ->> 'serves_from')::integer, m.version) > {known}), false)
FROM schema_migrations m WHERE m.version > 0

-- statement: probe_commit
-- A write that changes nothing of any record and commits as they do.
INSERT INTO commit_probe (id, written_at) VALUES (true, {now})
ON CONFLICT (id) DO UPDATE SET written_at = excluded.written_at

-- statement: inspect
-- Returns now, created_at of the oldest record that is RESERVED under a live lease or
-- NULL, how many are UNKNOWN. Reads a bounded number of rows, at any table size:
-- reservations that are open for long are marked, the others are among the newest.
SELECT {now},
  least(
    (SELECT min(n.created_at) FROM (
       SELECT t.created_at, t.state, t.lease_until FROM records t WHERE t.open_for_long
       ORDER BY t.created_at LIMIT {inspected}) n WHERE n.state = 1 AND n.lease_until > {now}),
    (SELECT min(n.created_at) FROM (
       SELECT t.created_at, t.state, t.lease_until FROM records t
       WHERE t.id < '80000000-0000-0000-0000-000000000000'
       ORDER BY t.id DESC LIMIT {inspected}) n WHERE n.state = 1 AND n.lease_until > {now}),
    (SELECT min(n.created_at) FROM (
       SELECT t.created_at, t.state, t.lease_until FROM records t
       WHERE t.id >= '80000000-0000-0000-0000-000000000000'
       ORDER BY t.created_at DESC, t.id DESC LIMIT {inspected}) n
     WHERE n.state = 1 AND n.lease_until > {now})),
  (SELECT count(*) FILTER (WHERE n.state = 4) FROM (
     SELECT t.state FROM records t WHERE t.watched ORDER BY t.created_at LIMIT {inspected}) n)
)sql";

}  // namespace idempotency::internal::batched_sql
