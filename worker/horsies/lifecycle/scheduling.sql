-- name: schedule_time
-- scheduling.register; reads only
SELECT statement_timestamp()

-- name: schedule_register
-- scheduling.register; rows that are missing or were made for another pattern or zone
-- ($1 names, $2 next runs, $3 hashes of pattern and zone, in the order of the names, $4 whether the scheduler starts)
-- A running scheduler leaves a row of another pattern alone, unless it is overdue and so no scheduler of that pattern is
-- left: two releases that run side by side would else plan a long interval anew every 30 s, and it would never come due.
-- A run that is due by the old pattern is kept, and sent first: a new release that starts in the second before an old
-- one sends it would lose it. No other row is changed, and none deleted: they may be those of another application.
INSERT INTO horsies_schedule_state AS state (schedule_name, next_run_at, config_hash, run_count, updated_at)
SELECT name, next_run_at, hash, 0, statement_timestamp()
  FROM unnest($1::text[], $2::timestamptz[], $3::text[]) AS planned (name, next_run_at, hash)
ON CONFLICT (schedule_name) DO UPDATE
   SET next_run_at = CASE WHEN state.next_run_at <= statement_timestamp() THEN state.next_run_at
                          ELSE EXCLUDED.next_run_at END,
       config_hash = EXCLUDED.config_hash, updated_at = statement_timestamp()
 WHERE state.config_hash IS DISTINCT FROM EXCLUDED.config_hash
   AND ($4 OR state.next_run_at < statement_timestamp() - interval '30 s')
RETURNING schedule_name

-- name: schedule_is_due
-- scheduling.due; reads only: whether any schedule is due, also one of another application
-- At most ticks no schedule is due, and passing 1,000 names costs a scheduler 1 ms.
SELECT EXISTS (SELECT FROM horsies_schedule_state WHERE COALESCE(next_run_at, '-infinity') <= statement_timestamp())

-- name: schedules_due
-- scheduling.due; reads only ($1 names)
SELECT schedule_name, next_run_at, config_hash, statement_timestamp() AS now
  FROM horsies_schedule_state
 WHERE schedule_name = ANY ($1::text[]) AND COALESCE(next_run_at, '-infinity') <= statement_timestamp()
 ORDER BY next_run_at NULLS FIRST
 LIMIT 500

-- name: schedule_run
-- scheduling.run; the slot and the hash are those that the scheduler read: of many schedulers one moves the row on
-- ($1 names, $2 slots, $3 hashes, $4 next runs, $5 ids of the last tasks; $6 name of the schedule of each task, $7 to
-- $16 its columns)
-- The tasks are inserted by the statement that moves the row on: a scheduler that dies sends both or neither. A row that
-- another scheduler has locked is being sent by it.
WITH mine AS MATERIALIZED (
    SELECT state.schedule_name, planned.next_run_at, planned.last_task_id
      FROM unnest($1::text[], $2::timestamptz[], $3::text[], $4::timestamptz[], $5::text[])
           AS planned (name, slot, hash, next_run_at, last_task_id)
      JOIN horsies_schedule_state state ON state.schedule_name = planned.name
     WHERE state.next_run_at IS NOT DISTINCT FROM planned.slot AND state.config_hash = planned.hash
     ORDER BY state.schedule_name
       FOR NO KEY UPDATE OF state SKIP LOCKED
), advanced AS (
    UPDATE horsies_schedule_state state
       SET last_run_at = statement_timestamp(), next_run_at = mine.next_run_at, last_task_id = mine.last_task_id,
           run_count = state.run_count + 1, updated_at = statement_timestamp()
      FROM mine
     WHERE state.schedule_name = mine.schedule_name
    RETURNING state.schedule_name
), sent AS (
    -- The id is made of name and slot: one that exists was sent by a scheduler of upstream.
    INSERT INTO horsies_tasks (id, task_name, enqueue_sha, sent_at, queue_name, priority, args, kwargs, task_options,
                               enqueued_at, max_retries)
    SELECT task.id, task.task_name, task.sha, task.sent_at, task.queue_name, task.priority, task.args, task.kwargs,
           task.options, statement_timestamp(), task.max_retries
      FROM unnest($6::text[], $7::text[], $8::text[], $9::text[], $10::timestamptz[], $11::text[], $12::int[],
                  $13::text[], $14::text[], $15::text[], $16::int[])
           AS task (schedule, id, task_name, sha, sent_at, queue_name, priority, args, kwargs, options, max_retries)
      JOIN advanced ON advanced.schedule_name = task.schedule
    ON CONFLICT DO NOTHING
)
SELECT schedule_name FROM advanced
