-- the start of each transaction on the schema, run by upgrade.py (the fields in braces are filled by migrations.py)
SET LOCAL client_min_messages = warning;
-- Wait for another migration, however long it takes.
SET LOCAL statement_timeout = 0;
SET LOCAL lock_timeout = 0;
SELECT pg_advisory_xact_lock({lock_key});
-- CREATE TABLE IF NOT EXISTS checks only the first schema of the path: if the tables are in a later one, it would
-- create a second, empty set that hides them.
SET LOCAL search_path TO {schema};
