-- name: doctor_budget
-- connections.py; reads only. The names of sessions are visible to every role, and their kind is not: of those without
-- a visible kind, the ones with a database are counted as clients
SELECT current_setting('max_connections')::integer AS max_connections,
       current_setting('superuser_reserved_connections')::integer
           + COALESCE(current_setting('reserved_connections', true), '0')::integer AS reserved,
       count(*) FILTER (WHERE backend_type = 'client backend' OR (backend_type IS NULL AND datid IS NOT NULL)) AS used,
       count(*) FILTER (WHERE application_name LIKE 'horsies %') AS ours,
       count(*) FILTER (WHERE application_name LIKE 'horsies worker %') AS workers,
       count(*) FILTER (WHERE usesysid = me.oid) AS role_used,
       count(*) FILTER (WHERE usesysid = me.oid AND application_name LIKE 'horsies worker %') AS role_workers,
       count(*) FILTER (WHERE datid = here.oid) AS database_used,
       count(*) FILTER (WHERE datid = here.oid AND application_name LIKE 'horsies worker %') AS database_workers,
       me.rolname::text AS role, me.rolconnlimit AS role_limit, me.rolsuper AS is_superuser,
       here.datname::text AS database, here.datconnlimit AS database_limit
  FROM pg_stat_activity
 CROSS JOIN (SELECT oid, rolname, rolconnlimit, rolsuper FROM pg_roles WHERE rolname = current_user) me
 CROSS JOIN (SELECT oid, datname, datconnlimit FROM pg_database WHERE datname = current_database()) here
 GROUP BY me.oid, me.rolname, me.rolconnlimit, me.rolsuper, here.oid, here.datname, here.datconnlimit

-- name: doctor_has_snapshots
-- connections.py; reads only
SELECT COALESCE(has_table_privilege(to_regclass('horsies_worker_states'), 'SELECT'), false) AS readable

-- name: doctor_living_workers
-- connections.py; reads only ($1 how old the newest snapshot of a living worker may be, in s)
SELECT count(DISTINCT worker_id) AS workers
  FROM horsies_worker_states
 WHERE snapshot_at > now() - $1::float8 * interval '1 s'

-- name: doctor_backend
-- pooler.py; reads only
SELECT pg_backend_pid()

-- name: doctor_notify
-- notifications.py, to itself; guards nothing, changes nothing ($1 channel)
SELECT pg_notify($1, '')

-- name: doctor_queue_usage
-- notifications.py; reads only. The share of the queue that some session has not read yet
SELECT pg_notification_queue_usage() AS usage
