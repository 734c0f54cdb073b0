-- the role of the session and the owners of the tables, run by upgrade.py after a refusal ($1: schema, $2: our names)
SELECT current_user::text AS role,
       has_schema_privilege($1, 'CREATE') AS may_create,
       (SELECT pg_get_userbyid(relowner)::text FROM pg_class
         WHERE relname = ANY ($2::text[]) AND relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = $1)
           AND NOT pg_has_role(relowner, 'USAGE')
         ORDER BY relname = 'horsies_tasks' DESC LIMIT 1) AS other_owner
