-- name: diagnose_schedules_overdue
-- findings/schedules.py; reads only ($1 within how many seconds a scheduler that runs was seen, $2 rows at most)
-- A scheduler that looks once a minute may be a minute late.
SELECT state.schedule_name, state.next_run_at, state.last_run_at,
       ARRAY(SELECT hostname || ':' || pid FROM horsies_schedulers
              WHERE seen_at > now() - $1::float8 * interval '1 s' AND state.schedule_name = ANY (schedules)
              ORDER BY 1 LIMIT 3) AS schedulers
  FROM horsies_schedule_state state
  JOIN horsies_schedules known USING (schedule_name)
 WHERE state.next_run_at < now() - interval '60 s' AND known.paused_at IS NULL
   AND state.next_run_at < now() - CASE WHEN known.definition -> 'check_interval_seconds' BETWEEN '0' AND '31536000'
                                        THEN 2 * (known.definition -> 'check_interval_seconds')::float8
                                        ELSE 0 END * interval '1 s'
 ORDER BY state.next_run_at
 LIMIT $2

-- name: diagnose_schedulers
-- findings/schedules.py; reads only ($1 within how many seconds a scheduler that runs was seen)
SELECT count(*) AS planned, min(state.next_run_at) AS next_run_at,
       (SELECT max(seen_at) FROM horsies_schedulers) AS seen_at,
       EXISTS (SELECT FROM horsies_schedulers WHERE seen_at > now() - $1::float8 * interval '1 s') AS running
  FROM horsies_schedule_state state
  JOIN horsies_schedules known USING (schedule_name)
 WHERE state.next_run_at IS NOT NULL AND known.paused_at IS NULL
