-- the schema of our tables, or where they would be, what exists of them, the role; run by state.py ($1: our names)
WITH home AS (
    SELECT COALESCE(
        (SELECT relnamespace FROM pg_class WHERE oid = to_regclass('horsies_tasks')),
        (SELECT relnamespace FROM pg_class WHERE oid = to_regclass('horsies_console_schema')),
        (SELECT oid FROM pg_namespace WHERE nspname = current_schema())
    ) AS oid
)
SELECT nspname::text AS schema,
       current_user::text AS role,
       current_setting('transaction_read_only') = 'on' AS read_only,
       relname::text AS name,
       relkind IN ('r', 'p') AS is_table,
       ARRAY(SELECT attname::text FROM pg_attribute WHERE attrelid = thing.oid AND attnum > 0 AND NOT attisdropped)
           AS columns,
       ARRAY(SELECT tgname::text FROM pg_trigger
              WHERE tgrelid = thing.oid AND NOT tgisinternal AND tgenabled IN ('O', 'A')) AS triggers,
       ARRAY(SELECT index.relname::text FROM pg_index JOIN pg_class index ON index.oid = indexrelid
              WHERE indrelid = thing.oid AND indisvalid) AS indexes,
       ARRAY(SELECT privilege FROM unnest('{SELECT,INSERT,UPDATE}'::text[]) AS privilege
              WHERE has_table_privilege(thing.oid, privilege)
             UNION ALL
             SELECT 'USAGE of the sequence'
              WHERE NOT EXISTS (SELECT FROM pg_depend JOIN pg_class sequence ON sequence.oid = objid
                                 WHERE refobjid = thing.oid AND classid = 'pg_class'::regclass AND deptype = 'a'
                                   -- CASE, because AND has no order and the function raises an error for anything else
                                   AND CASE WHEN relkind = 'S'
                                            THEN NOT has_sequence_privilege(sequence.oid, 'USAGE, UPDATE') END))
           AS privileges
  FROM home
  JOIN pg_namespace namespace ON namespace.oid = home.oid
  LEFT JOIN pg_class thing ON thing.relnamespace = home.oid AND thing.relname = ANY ($1::text[])
