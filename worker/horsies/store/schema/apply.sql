-- one migration with its entry in the list of applied ones, run by upgrade.py after begin.sql; refused out of order
-- A table that another session locks must cause an error: all statements queue up behind one that waits for an
-- exclusive lock.
SET LOCAL lock_timeout = '{lock_timeout_ms}ms';
-- Names in definitions are bound now, and a function that is replaced keeps its owner.
DO $$
DECLARE
    other record;
BEGIN
    SELECT made.kind, made.name, owner.rolname INTO other
      FROM (SELECT 'function' AS kind, oid::regprocedure::text AS name, pronamespace AS schema, proowner AS owner
              FROM pg_catalog.pg_proc WHERE pg_catalog.starts_with(proname::text, 'horsies_')
             UNION ALL
            -- of PostgreSQL's own types
            SELECT 'operator', oid::regoperator::text, oprnamespace, oprowner FROM pg_catalog.pg_operator
             WHERE oprleft OPERATOR(pg_catalog.<) 16384::oid AND oprright OPERATOR(pg_catalog.<) 16384::oid) made
      JOIN pg_catalog.pg_namespace schema ON schema.oid OPERATOR(pg_catalog.=) made.schema
      JOIN pg_catalog.pg_roles owner ON owner.oid OPERATOR(pg_catalog.=) made.owner
     WHERE schema.nspname OPERATOR(pg_catalog.=) pg_catalog.current_schema() AND NOT owner.rolsuper
       AND owner.oid OPERATOR(pg_catalog.<>) schema.nspowner AND owner.rolname OPERATOR(pg_catalog.<>) current_user
       AND owner.oid OPERATOR(pg_catalog.<>) ALL (ARRAY(
               SELECT relowner FROM pg_catalog.pg_class
                WHERE oid OPERATOR(pg_catalog.=) pg_catalog.to_regclass('horsies_tasks')::oid
                UNION ALL
               SELECT datdba FROM pg_catalog.pg_database
                WHERE datname OPERATOR(pg_catalog.=) pg_catalog.current_database()))
     LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'role % has created the % % in the schema of the tables, where it could run in place of another',
            other.rolname, other.kind, other.name
            USING HINT = 'REVOKE CREATE ON SCHEMA … FROM PUBLIC, then drop it';
    END IF;
END $$;
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
