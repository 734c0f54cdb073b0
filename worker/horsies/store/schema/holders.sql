-- sessions that lock our tables, oldest transaction first; run by upgrade.py after a refusal ($1: schema, $2: names)
SELECT activity.pid,
       COALESCE(NULLIF(activity.application_name, ''), activity.usename::text, activity.backend_type) AS who,
       COALESCE(activity.state, 'state unknown') AS state,
       COALESCE(extract(epoch FROM clock_timestamp() - activity.xact_start), 0)::float8 AS seconds,
       min(thing.relname)::text AS held
  FROM pg_locks lock
  JOIN pg_stat_activity activity USING (pid)
  JOIN pg_class thing ON thing.oid = lock.relation
  JOIN pg_namespace namespace ON namespace.oid = thing.relnamespace
 WHERE lock.granted AND lock.locktype = 'relation' AND activity.datname = current_database()
   AND namespace.nspname = $1 AND thing.relname = ANY ($2::text[]) AND lock.pid <> pg_backend_pid()
 GROUP BY activity.pid, who, activity.state, activity.xact_start
 ORDER BY activity.xact_start
 LIMIT 3
