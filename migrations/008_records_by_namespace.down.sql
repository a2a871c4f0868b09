DROP INDEX records_by_namespace;
CREATE INDEX records_by_scope ON records (namespace, scope, id);
