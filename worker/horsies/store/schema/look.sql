-- the schema that ours stand in, or would be made in, and the columns of those there; run by look.py ($1: our names)
WITH home AS (
    SELECT COALESCE(
        (SELECT relnamespace FROM pg_class WHERE oid = to_regclass('horsies_tasks')),
        (SELECT relnamespace FROM pg_class WHERE oid = to_regclass('horsies_schema_version')),
        (SELECT oid FROM pg_namespace WHERE nspname = current_schema())
    ) AS oid
)
SELECT nspname::text AS schema,
       relname::text AS name,
       relkind IN ('r', 'p') AS is_table,
       ARRAY(SELECT attname::text FROM pg_attribute WHERE attrelid = thing.oid AND attnum > 0 AND NOT attisdropped)
           AS columns
  FROM home
  JOIN pg_namespace namespace ON namespace.oid = home.oid
  LEFT JOIN pg_class thing ON thing.relnamespace = home.oid AND thing.relname = ANY ($1::text[])
