-- name: session_facts
-- operations/session_targets.py; reads only ($1 pids). No table of ours, which may be what is locked
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

-- name: end_sessions
-- operations/session_targets.py; the session that was seen, which a later one with its pid is not; for a statement: one runs
-- ($1 to $6 as in `operation`, $7 pids, $8 the audit rows that this undoes, $9 when they were seen to begin, $10 whether
-- only the statement is to end)
WITH /* operation */, signalled AS MATERIALIZED (
    SELECT asked.pid, session.usename::text AS role, session.application_name AS application, session.state,
           CASE WHEN asked.only_active THEN pg_cancel_backend(session.pid)
                ELSE pg_terminate_backend(session.pid) END AS done, asked.undoes, asked.number
      FROM unnest($7::text[], $8::bigint[], $9::timestamptz[], $10::boolean[])
           WITH ORDINALITY AS asked (pid, undoes, started_at, only_active, number)
      JOIN pg_catalog.pg_stat_activity session
        ON session.pid = asked.pid::integer AND session.backend_start = asked.started_at
     WHERE session.state = 'active' OR NOT asked.only_active
), audited AS (
    SELECT 'session' AS kind, pid AS id, 'applied' AS outcome, NULL AS detail,
           jsonb_build_object('state', state, 'role', role, 'application', application) AS before,
           NULL::jsonb AS after, undoes, number
      FROM signalled
     WHERE done
), /* audit */
SELECT pid FROM signalled WHERE done
