-- one migration with its entry in the list of applied ones, run by upgrade.py after begin.sql; refused out of order
-- A table that another session locks must cause an error: all statements queue up behind one that waits for an
-- exclusive lock.
SET LOCAL lock_timeout = '{lock_timeout_ms}ms';
CREATE TABLE IF NOT EXISTS horsies_console_schema (
    version    integer     PRIMARY KEY,
    name       text        NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT now()
);
DO $$ BEGIN
    ASSERT (SELECT COALESCE(max(version), 0) BETWEEN {follows} AND {version} - 1 FROM horsies_console_schema),
        'migration {version} is already applied, or the one before it is not';
END $$;

{migration}
INSERT INTO horsies_console_schema (version, name) VALUES ({version}, '{name}');
