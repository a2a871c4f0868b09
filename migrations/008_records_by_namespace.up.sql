-- serves_from: 3
-- outside_transaction
-- The index of lists and purges is partial. Its predicate is true of every record, but only their
-- statements have it: for `id = ANY (...)` the planner cannot prove it, and so cannot choose a
-- scan of this whole index, which costs it as little as the primary key while it expects one row.
-- `namespace IS NOT NULL` would not do: each condition on the namespace implies it.
-- Programs of before find the same records; their lists read the table until they are replaced.
DROP INDEX CONCURRENTLY IF EXISTS records_by_namespace;

CREATE INDEX CONCURRENTLY records_by_namespace ON records (namespace, scope, id)
  WHERE namespace >= '';

DROP INDEX CONCURRENTLY IF EXISTS records_by_scope;
