-- name: doctor_search_path
-- doctor/checks/schema.py; reads only ($1 schema): the path that our functions should have, and whether every role
-- may CREATE in the schema
SELECT 'pg_catalog, ' || quote_ident($1::text) || ', pg_temp' AS path,
       EXISTS (SELECT FROM aclexplode(COALESCE(nspacl, acldefault('n', nspowner))) AS granted
                WHERE granted.grantee = 0 AND granted.privilege_type = 'CREATE') AS open
  FROM pg_namespace
 WHERE nspname = $1::text::name

-- name: doctor_unbound_functions
-- doctor/checks/schema.py; reads only ($1 schema, $2 its search path): our functions whose names mean what the
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
-- doctor/checks/schema.py; reads only ($1 schema, $2 how many): functions and operators with names of ours or of
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
