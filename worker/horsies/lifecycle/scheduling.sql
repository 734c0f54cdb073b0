-- name: schedule_time
-- scheduling.register; reads only
SELECT statement_timestamp()

-- name: schedule_register
-- scheduling.register; rows that are missing or were made for another pattern or zone
-- ($1 names, $2 next runs, $3 hashes of pattern and zone, in the order of the names, $4 whether the scheduler starts)
-- A running scheduler leaves a row of another pattern alone, unless it is overdue and so no scheduler of that pattern
-- is left: two releases that run side by side would otherwise plan a long interval anew every 30 s, and it would never
-- come due. A run that is due by the old pattern is kept, and sent first: a new release that starts in the second
-- before an old one sends it would lose it. No other row is changed, and none deleted: they may be those of another
-- application.
INSERT INTO horsies_schedule_state AS state (schedule_name, next_run_at, config_hash, run_count, updated_at)
SELECT name, next_run_at, hash, 0, statement_timestamp()
  FROM unnest($1::text[], $2::timestamptz[], $3::text[]) AS planned (name, next_run_at, hash)
ON CONFLICT (schedule_name) DO UPDATE
   SET next_run_at = CASE WHEN state.next_run_at <= statement_timestamp() THEN state.next_run_at
                          ELSE EXCLUDED.next_run_at END,
       config_hash = EXCLUDED.config_hash, updated_at = statement_timestamp()
 WHERE state.config_hash IS DISTINCT FROM EXCLUDED.config_hash
   AND ($4 OR state.next_run_at < statement_timestamp() - interval '30 s'
              -- A paused schedule becomes overdue although its scheduler runs.
              AND NOT EXISTS (SELECT FROM horsies_schedules ordered
                               WHERE ordered.schedule_name = state.schedule_name AND ordered.paused_at IS NOT NULL))
RETURNING schedule_name

-- name: schedules_undefined
-- scheduling.register; reads only: which of these schedules are not known to those without the application ($1 names)
SELECT asked.name
  FROM unnest($1::text[]) AS asked (name)
 WHERE NOT EXISTS (SELECT FROM horsies_schedules known WHERE known.schedule_name = asked.name)

-- name: schedule_define
-- scheduling.register; rows that are missing or differ, and nothing that an operator ordered
-- ($1 names in their order, $2 hashes of pattern and zone, $3 definitions)
INSERT INTO horsies_schedules AS known (schedule_name, config_hash, definition)
SELECT name, hash, definition FROM unnest($1::text[], $2::text[], $3::jsonb[]) AS given (name, hash, definition)
ON CONFLICT (schedule_name) DO UPDATE
   SET config_hash = EXCLUDED.config_hash, definition = EXCLUDED.definition, registered_at = statement_timestamp()
 WHERE (known.config_hash, known.definition) IS DISTINCT FROM (EXCLUDED.config_hash, EXCLUDED.definition)

-- name: renew_scheduler
-- scheduling.renew_scheduler; the scheduler's own row; deletes orders that are a day old
-- ($1 scheduler, $2 host, $3 pid, $4 names of its schedules, $5 version, $6 silence after which it is lost,
-- in s)
WITH old_orders AS (
    -- No operator still expects an order of yesterday to run.
    DELETE FROM horsies_schedule_runs
     WHERE sent_at = 'infinity' AND slot < statement_timestamp() - interval '1 day'
)
INSERT INTO horsies_schedulers (scheduler_id, hostname, pid, schedules, horsies_version, lost_after_s)
VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (scheduler_id) DO UPDATE SET seen_at = statement_timestamp()

-- name: remove_scheduler
-- scheduling.remove_scheduler; the scheduler's own row ($1 scheduler)
DELETE FROM horsies_schedulers WHERE scheduler_id = $1

-- name: schedule_is_due
-- scheduling.due; reads only: whether any schedule is due and not paused, also one of another application
-- At most ticks no schedule is due, and passing 1,000 names costs a scheduler 1 ms.
SELECT EXISTS (SELECT FROM horsies_schedule_state state
                WHERE COALESCE(next_run_at, '-infinity') <= statement_timestamp()
                  AND NOT EXISTS (SELECT FROM horsies_schedules ordered
                                   WHERE ordered.schedule_name = state.schedule_name AND ordered.paused_at IS NOT NULL))

-- name: schedules_due
-- scheduling.due; reads only ($1 names)
SELECT state.schedule_name, state.next_run_at, state.config_hash, statement_timestamp() AS now, ordered.skip_slot,
       ordered.schedule_name IS NOT NULL AS is_defined
  FROM horsies_schedule_state state
  LEFT JOIN horsies_schedules ordered ON ordered.schedule_name = state.schedule_name
 WHERE state.schedule_name = ANY ($1::text[]) AND COALESCE(state.next_run_at, '-infinity') <= statement_timestamp()
   AND ordered.paused_at IS NULL
 ORDER BY state.next_run_at NULLS FIRST
 LIMIT 500

-- name: schedule_run
-- scheduling.run; the slot and the hash are those that the scheduler read: of many schedulers one moves the row on
-- ($1 names, $2 slots, $3 hashes, $4 next runs, $5 whether anything is sent, $6 ids of the last tasks, $7 the slot that
-- an operator ordered to skip; $8 name of the schedule of each slot, $9 slots, $10 tasks, $11 workflows; $12 name of
-- the schedule of each task, $13 to $22 its columns)
-- The tasks are inserted by the statement that moves the row on: a scheduler that dies does both or neither. A row that
-- another scheduler has locked is being sent by it.
WITH mine AS MATERIALIZED (
    SELECT state.schedule_name, planned.next_run_at, planned.sends, planned.last_task_id, planned.skip_slot
      FROM unnest($1::text[], $2::timestamptz[], $3::text[], $4::timestamptz[], $5::boolean[], $6::text[],
                  $7::timestamptz[])
           AS planned (name, slot, hash, next_run_at, sends, last_task_id, skip_slot)
      JOIN horsies_schedule_state state ON state.schedule_name = planned.name
     WHERE state.next_run_at IS NOT DISTINCT FROM planned.slot AND state.config_hash = planned.hash
     ORDER BY state.schedule_name
       FOR NO KEY UPDATE OF state SKIP LOCKED
), allowed AS MATERIALIZED (
    -- Locked, and compared as it is now: nothing is sent after a pause has been stored, also by a statement that began
    -- before. A row that an operator has locked is read again at the next tick.
    SELECT mine.*, ordered.skipped_by
      FROM mine
      JOIN horsies_schedules ordered ON ordered.schedule_name = mine.schedule_name
     WHERE ordered.paused_at IS NULL AND ordered.skip_slot IS NOT DISTINCT FROM mine.skip_slot
       FOR SHARE OF ordered SKIP LOCKED
), advanced AS (
    UPDATE horsies_schedule_state state
       SET last_run_at = CASE WHEN allowed.sends THEN statement_timestamp() ELSE state.last_run_at END,
           next_run_at = allowed.next_run_at, last_task_id = COALESCE(allowed.last_task_id, state.last_task_id),
           run_count = state.run_count + allowed.sends::integer, updated_at = statement_timestamp()
      FROM allowed
     WHERE state.schedule_name = allowed.schedule_name
    RETURNING state.schedule_name, allowed.skip_slot, allowed.skipped_by
), skipped AS (
    UPDATE horsies_schedules ordered SET skip_slot = NULL, skipped_by = NULL
      FROM allowed
     WHERE ordered.schedule_name = allowed.schedule_name AND allowed.skip_slot < allowed.next_run_at
), recorded AS (
    INSERT INTO horsies_schedule_runs (schedule_name, slot, sent_at, task_id, workflow_id, ordered_by)
    SELECT used.schedule, used.slot, statement_timestamp(), used.task_id, used.workflow_id,
           CASE WHEN used.slot = advanced.skip_slot THEN advanced.skipped_by END
      FROM unnest($8::text[], $9::timestamptz[], $10::text[], $11::text[])
           AS used (schedule, slot, task_id, workflow_id)
      JOIN advanced ON advanced.schedule_name = used.schedule
    ON CONFLICT DO NOTHING
), sent AS (
    -- The id is made of name and slot: one that exists was sent by a scheduler of upstream.
    INSERT INTO /* new_task */
    SELECT task.id, task.task_name, task.enqueue_sha, task.sent_at, task.queue_name, task.priority, task.args,
           task.kwargs, task.task_options, NULL, NULL, statement_timestamp(), task.max_retries, false, NULL
      FROM unnest($12::text[], $13::text[], $14::text[], $15::text[], $16::timestamptz[], $17::text[], $18::int[],
                  $19::text[], $20::text[], $21::text[], $22::int[])
           AS task (schedule, id, task_name, enqueue_sha, sent_at, queue_name, priority, args, kwargs, task_options,
                    max_retries)
      JOIN advanced ON advanced.schedule_name = task.schedule
    ON CONFLICT DO NOTHING
)
SELECT schedule_name FROM advanced

-- name: schedule_ordered
-- scheduling.ordered_runs; reads only ($1 names): workflows that operators ordered to start now
SELECT schedule_name, slot, workflow_id
  FROM horsies_schedule_runs
 WHERE sent_at = 'infinity' AND schedule_name = ANY ($1::text[])
 ORDER BY slot
 LIMIT 100

-- name: schedule_take_order
-- scheduling.start_ordered; not started yet, and not being started by another scheduler ($1 schedule, $2 slot)
WITH mine AS (
    SELECT schedule_name, slot
      FROM horsies_schedule_runs
     WHERE schedule_name = $1 AND slot = $2 AND sent_at = 'infinity'
       FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE horsies_schedule_runs ordered SET sent_at = statement_timestamp()
  FROM mine
 WHERE ordered.schedule_name = mine.schedule_name AND ordered.slot = mine.slot
RETURNING ordered.slot
