-- name: schedules_read
-- operations/schedule_targets.py; reads only ($1 names, $2 how long ago a scheduler that runs was seen, in s)
SELECT known.schedule_name, known.definition, known.registered_at, known.paused_at, known.paused_by, known.reason,
       known.skip_slot, state.next_run_at, statement_timestamp() AS now,
       EXISTS (SELECT FROM horsies_schedulers
                WHERE seen_at > statement_timestamp() - $2::float8 * interval '1 s' AND asked.name = ANY (schedules))
           AS has_scheduler
  FROM unnest($1::text[]) WITH ORDINALITY AS asked (name, number)
  JOIN horsies_schedules known ON known.schedule_name = asked.name
  LEFT JOIN horsies_schedule_state state ON state.schedule_name = asked.name
 ORDER BY asked.number

-- name: schedule_names
-- operations/schedule_targets.py; reads only: all names, and whether it is known what they send
SELECT schedule_name, known.schedule_name IS NOT NULL AS is_defined
  FROM horsies_schedules known
  FULL JOIN horsies_schedule_state state USING (schedule_name)
 ORDER BY schedule_name

-- name: schedules_now
-- operations/schedule_targets.py; reads only: the clock of the server, for fingerprints
SELECT statement_timestamp()
