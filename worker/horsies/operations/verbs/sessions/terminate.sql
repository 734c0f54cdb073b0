-- name: terminate_session
-- verbs/sessions/terminate.py; the session that was seen, which a later one with its pid is not
-- ($1 to $6 as in `audit_operation`, $7 pids, $8 the audit rows that this undoes, $9 when they were seen to begin)
WITH /* operation */, terminated AS MATERIALIZED (
    SELECT asked.pid, session.usename::text AS role, session.application_name AS application, session.state,
           pg_catalog.pg_terminate_backend(session.pid) AS done, asked.undoes, asked.number
      FROM unnest($7::text[], $8::bigint[], $9::timestamptz[])
           WITH ORDINALITY AS asked (pid, undoes, started_at, number)
      JOIN pg_catalog.pg_stat_activity session
        ON session.pid = asked.pid::integer AND session.backend_start = asked.started_at
), audited AS (
    SELECT 'session' AS kind, pid AS id, 'applied' AS outcome, NULL AS detail,
           jsonb_build_object('state', state, 'role', role, 'application', application) AS before,
           NULL::jsonb AS after, undoes, number
      FROM terminated
     WHERE done
), /* audit */
SELECT pid FROM terminated WHERE done
