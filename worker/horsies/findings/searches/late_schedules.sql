-- name: diagnose_schedules_overdue
-- searches/late_schedules.py; reads only ($1 within how many seconds a scheduler that runs was seen, $2 rows at most)
-- A scheduler that checks once a minute may be a minute late.
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
-- searches/late_schedules.py; reads only ($1 within how many seconds a scheduler that runs was seen)
SELECT planned, next_run_at, last.seen_at, last.hostname, last.pid,
       COALESCE(last.seen_at > now() - $1::float8 * interval '1 s', false) AS running
  FROM (SELECT count(*) AS planned, min(state.next_run_at) AS next_run_at
          FROM horsies_schedule_state state
          JOIN horsies_schedules known USING (schedule_name)
         WHERE state.next_run_at IS NOT NULL AND known.paused_at IS NULL) schedules
  LEFT JOIN (SELECT seen_at, hostname, pid FROM horsies_schedulers WHERE seen_at > now() - interval '1 day'
              ORDER BY seen_at DESC LIMIT 1) last ON true

-- name: diagnose_schedulers_lost
-- searches/late_schedules.py; reads only: silent schedulers, with those of their planned schedules that no other
-- scheduler has ($1 silence in s of a lost scheduler that reports no limit, $2 rows at most)
WITH planned AS MATERIALIZED (
    SELECT known.schedule_name
      FROM horsies_schedules known
      JOIN horsies_schedule_state state USING (schedule_name)
     WHERE state.next_run_at IS NOT NULL AND known.paused_at IS NULL
), judged AS MATERIALIZED (
    SELECT hostname, pid, seen_at, schedules,
           -- A time that a hand has stored would overflow the interval.
           seen_at < now() - CASE WHEN lost_after_s BETWEEN 1 AND 600 THEN lost_after_s ELSE $1::float8 END * interval '1 s' AS lost
      FROM horsies_schedulers
     WHERE seen_at > now() - interval '1 day'
)
SELECT hostname, pid, seen_at,
       ARRAY(SELECT schedule_name::text FROM planned
              WHERE schedule_name = ANY (one.schedules)
                AND NOT EXISTS (SELECT FROM judged other
                                 WHERE NOT other.lost AND planned.schedule_name = ANY (other.schedules))
              ORDER BY 1 LIMIT $2) AS unserved
  FROM judged one
 WHERE lost
 ORDER BY seen_at
 LIMIT $2
