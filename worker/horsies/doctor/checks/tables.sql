-- name: doctor_search_path
-- doctor/checks/tables.py; reads only ($1 schema): the path that our functions should have, and whether every role
-- may CREATE in the schema
SELECT 'pg_catalog, ' || quote_ident($1::text) || ', pg_temp' AS path,
       EXISTS (SELECT FROM aclexplode(COALESCE(nspacl, acldefault('n', nspowner))) AS granted
                WHERE granted.grantee = 0 AND granted.privilege_type = 'CREATE') AS open
  FROM pg_namespace
 WHERE nspname = $1::text::name

-- name: doctor_unbound_functions
-- doctor/checks/tables.py; reads only ($1 schema, $2 its search path): our functions whose names mean what the
-- session's search path says
SELECT format('%I.%I(%s)', $1::text, proname, pg_get_function_identity_arguments(pg_proc.oid)) AS name
  FROM pg_proc
  JOIN pg_namespace ON pg_namespace.oid = pronamespace
 WHERE nspname = $1::text::name AND starts_with(proname::text, 'horsies_') AND prosqlbody IS NULL
   AND 'search_path=' || $2::text <> ALL (COALESCE(proconfig, '{}'))
       -- For speed these name everything with its schema instead. Upstream's processes may have made them anew.
   AND NOT (proname IN ('horsies_notify_task_changes', 'horsies_notify_task_status')
            AND prosrc LIKE '%OPERATOR(pg_catalog.%' AND prosrc !~ '[^.]pg_notify')
 ORDER BY 1

-- name: doctor_objects_of_others
-- doctor/checks/tables.py; reads only ($1 schema, $2 how many): functions and operators with names of ours or of
-- PostgreSQL's, made by a role that owns neither the database, nor the schema, nor our tables
SELECT made.kind, made.name, owner.rolname::text AS owner
  FROM (SELECT CASE prokind WHEN 'a' THEN 'AGGREGATE' ELSE 'FUNCTION' END AS kind, proowner AS owner,
               format('%I.%I(%s)', $1::text, proname, pg_get_function_identity_arguments(oid)) AS name
          FROM pg_proc ours
         WHERE pronamespace = (SELECT oid FROM pg_namespace WHERE nspname = $1::text::name)
           AND (starts_with(proname::text, 'horsies_')
                OR EXISTS (SELECT FROM pg_proc WHERE proname = ours.proname
                                                 AND pronamespace = 'pg_catalog'::regnamespace::oid))
         UNION ALL
        SELECT 'OPERATOR', oprowner,
               format('%I.%s (%s, %s)', $1::text, oprname, oprleft::regtype, oprright::regtype)
          FROM pg_operator
         WHERE oprnamespace = (SELECT oid FROM pg_namespace WHERE nspname = $1::text::name)
           AND oprleft <> 0 AND oprleft < 16384 AND oprright < 16384) made -- of PostgreSQL's own types
  JOIN pg_roles owner ON owner.oid = made.owner
 WHERE NOT owner.rolsuper
   AND owner.oid <> ALL (ARRAY(SELECT nspowner FROM pg_namespace WHERE nspname = $1::text::name
                                UNION ALL
                               SELECT datdba FROM pg_database WHERE datname = current_database()
                                UNION ALL
                               SELECT relowner FROM pg_class WHERE oid = to_regclass('horsies_tasks')::oid))
 ORDER BY made.name
 LIMIT $2

-- name: doctor_indexes
-- indexes.py; reads only ($1 schema, $2 our tables)
-- `counted_s`: for how long uses have been counted, at least; the server's start stands for a time that is not known.
SELECT index.relname::text AS name, owner.relname::text AS on_table,
       entry.indisvalid AND entry.indisready AND entry.indislive AS valid,
       entry.indisunique OR entry.indisprimary OR entry.indisexclusion AS is_constraint,
       EXISTS (SELECT FROM pg_stat_progress_create_index WHERE index_relid = index.oid) AS being_built,
       pg_relation_size(index.oid) AS bytes,
       COALESCE(pg_stat_get_numscans(index.oid), 0) AS scans,
       extract(epoch FROM now() - (SELECT COALESCE(stats_reset, pg_postmaster_start_time()) FROM pg_stat_database
                                    WHERE datname = current_database()))::float8 AS counted_s
  FROM pg_index entry
  JOIN pg_class index ON index.oid = entry.indexrelid
  JOIN pg_class owner ON owner.oid = entry.indrelid
  JOIN pg_namespace namespace ON namespace.oid = owner.relnamespace
 WHERE namespace.nspname = $1 AND owner.relname = ANY ($2::text[])
 ORDER BY index.relname

-- name: doctor_dead_rows
-- vacuum.py; reads only ($1 schema, $2 our tables). `threshold`: from how many dead rows on autovacuum begins, by the
-- table's own settings or those of the server
SELECT class.relname::text AS name,
       pg_stat_get_live_tuples(class.oid) AS living, pg_stat_get_dead_tuples(class.oid) AS dead,
       extract(epoch FROM clock_timestamp() - GREATEST(pg_stat_get_last_autovacuum_time(class.oid),
                                                       pg_stat_get_last_vacuum_time(class.oid)))::float8 AS vacuumed_s,
       pg_total_relation_size(class.oid) AS bytes,
       COALESCE(own.enabled, true) AS enabled,
       COALESCE(own.threshold, current_setting('autovacuum_vacuum_threshold')::float8)
           + COALESCE(own.scale, current_setting('autovacuum_vacuum_scale_factor')::float8)
             * GREATEST(class.reltuples, 0) AS threshold,
       current_setting('autovacuum')::boolean AS autovacuum, current_setting('track_counts')::boolean AS track_counts
  FROM pg_class class
  JOIN pg_namespace namespace ON namespace.oid = class.relnamespace
 CROSS JOIN LATERAL (
        SELECT bool_and(option_value::boolean) FILTER (WHERE option_name = 'autovacuum_enabled') AS enabled,
               max(option_value::float8) FILTER (WHERE option_name = 'autovacuum_vacuum_threshold') AS threshold,
               max(option_value::float8) FILTER (WHERE option_name = 'autovacuum_vacuum_scale_factor') AS scale
          FROM pg_options_to_table(class.reloptions)) own
 WHERE namespace.nspname = $1 AND class.relname = ANY ($2::text[]) AND class.relkind IN ('r', 'p')
 ORDER BY class.relname
