-- the start of each transaction on the schema, run by upgrade.py (the fields in braces are filled by migrations.py)
SET LOCAL client_min_messages = warning;
-- Wait for another migration, however long it takes.
SET LOCAL statement_timeout = 0;
SET LOCAL lock_timeout = 0;
-- An advisory lock, because the first migration finds no table to lock. Any role that may connect can hold it; then this
-- waits and changes nothing, pg_locks names the holder, and nothing that runs ever asks for this lock.
SELECT pg_catalog.pg_advisory_xact_lock({lock_key});
-- CREATE TABLE IF NOT EXISTS checks only the first schema of the path: if the tables are in a later one, it would
-- create a second, empty set that hides them.
SET LOCAL search_path TO {schema}, pg_temp;
