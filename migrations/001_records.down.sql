-- Forgets every record: callers that retry afterwards run again.
DROP TABLE records;
