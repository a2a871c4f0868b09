ALTER TABLE records DROP COLUMN open_for_long;
DROP TABLE commit_probe;
