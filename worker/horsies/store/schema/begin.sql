-- what each transaction on the schema begins with, run by upgrade.py (the fields in braces are filled by migrations.py)
SET LOCAL client_min_messages = warning;
-- Another migration is waited for, however long it takes.
SET LOCAL statement_timeout = 0;
SET LOCAL lock_timeout = 0;
SELECT pg_advisory_xact_lock({lock_key});
-- CREATE TABLE IF NOT EXISTS looks only into the first schema of the path: where ours stand in a later one, it would make
-- a second, empty set that hides them.
SET LOCAL search_path TO {schema};
