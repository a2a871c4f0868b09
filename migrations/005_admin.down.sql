-- The audit log is lost: copy it first.
DROP TABLE audit_log;
DROP FUNCTION audit_log_refuse();
DROP TABLE audit_key;
DROP INDEX records_by_parent;
DROP INDEX records_unknown;
DROP INDEX records_by_scope;
