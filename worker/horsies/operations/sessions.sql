-- name: session_facts
-- operations/sessions.py; reads only ($1 pids). No table of ours, which may be what is locked
SELECT asked.pid, session.application_name AS application, session.usename::text AS role,
       COALESCE(session.client_hostname, host(session.client_addr)) AS host, session.state,
       NULLIF(session.query, '<insufficient privilege>') AS query, session.xact_start AS open_since,
       session.backend_start AS started_at,
       CASE WHEN session.pid IS NULL THEN 'there is no such session'
            WHEN session.pid = pg_catalog.pg_backend_pid() THEN 'it is this session itself'
            WHEN session.usename IS NULL THEN 'it is a process of the server, not a session'
            WHEN session.datname IS DISTINCT FROM pg_catalog.current_database() THEN 'it is connected to another database'
            WHEN (SELECT rolsuper FROM pg_catalog.pg_roles WHERE oid = session.usesysid)
                 AND NOT (SELECT rolsuper FROM pg_catalog.pg_roles WHERE rolname = current_user)
                 THEN 'only a superuser may end a session of a superuser'
            WHEN NOT (pg_catalog.pg_has_role(session.usesysid, 'USAGE')
                      OR pg_catalog.pg_has_role('pg_signal_backend', 'USAGE'))
                 THEN pg_catalog.format('role %s may not end sessions of role %s: GRANT pg_signal_backend TO %s',
                                        current_user, session.usename, current_user) END AS refusal,
       pg_catalog.statement_timestamp() AS now
  FROM unnest($1::text[]) WITH ORDINALITY AS asked (pid, number)
  LEFT JOIN pg_catalog.pg_stat_activity session ON session.pid::text = asked.pid
 ORDER BY asked.number
