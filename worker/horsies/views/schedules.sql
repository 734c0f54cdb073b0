-- name: view_schedule_names
-- views/schedules.py, a part of view_schedules; reads only: of all schedules, also of those that only a scheduler of
-- upstream serves
SELECT schedule_name FROM horsies_schedules UNION SELECT schedule_name FROM horsies_schedule_state

-- name: view_schedule_names_of_upstream
-- views/schedules.py, a part of view_schedules on a database without horsies_schedules; reads only
SELECT schedule_name FROM horsies_schedule_state

-- name: view_schedule_rows
-- views/schedules.py, a part of view_schedules; reads only: what is stored of each schedule
SELECT schedule_name AS name, definition, registered_at, paused_at, paused_by, reason, skip_slot, skipped_by
  FROM horsies_schedules

-- name: view_schedule_rows_of_upstream
-- views/schedules.py, a part of view_schedules on a database without horsies_schedules; reads only
SELECT NULL::text AS name, NULL::jsonb AS definition, NULL::timestamptz AS registered_at,
       NULL::timestamptz AS paused_at, NULL::text AS paused_by, NULL::text AS reason, NULL::timestamptz AS skip_slot,
       NULL::text AS skipped_by

-- name: view_used_slots
-- views/schedules.py, a part of view_schedules; reads only: the newest slots of one schedule, at most $3
-- Upstream, and versions before 10, stored the last task only.
-- A workflow that an operator ordered is sent at infinity until a scheduler starts it.
(SELECT slot, NULLIF(sent_at, 'infinity') AS sent_at, task_id, workflow_id, ordered_by FROM horsies_schedule_runs
  WHERE schedule_name = named.schedule_name ORDER BY slot DESC LIMIT $3)
 UNION ALL
SELECT state.last_run_at, state.last_run_at, state.last_task_id, NULL, NULL
 WHERE state.last_task_id IS NOT NULL
   AND NOT EXISTS (SELECT FROM horsies_schedule_runs WHERE schedule_name = named.schedule_name)

-- name: view_used_slots_of_upstream
-- views/schedules.py, a part of view_schedules on a database without horsies_schedule_runs; reads only ($3 is not used)
SELECT state.last_run_at AS slot, state.last_run_at AS sent_at, state.last_task_id AS task_id,
       NULL::text AS workflow_id, NULL::text AS ordered_by
 WHERE state.last_task_id IS NOT NULL AND $3::integer > 0

-- name: view_schedules
-- views/schedules.py; reads only ($1 one name, or NULL for all; $2 schedules at most; $3 newest runs of each)
-- A run is joined to its task or workflow by the primary key; one that has neither was skipped.
SELECT named.schedule_name, own.definition, own.registered_at, state.next_run_at, state.last_run_at,
       COALESCE(state.run_count, 0) AS run_count, own.paused_at, own.paused_by, own.reason, own.skip_slot,
       own.skipped_by, run.*
  FROM (SELECT schedule_name FROM (/* names */) every
         WHERE $1::text IS NULL OR schedule_name = $1 ORDER BY schedule_name LIMIT $2) named
  LEFT JOIN horsies_schedule_state state ON state.schedule_name = named.schedule_name
  LEFT JOIN LATERAL (SELECT * FROM (/* rows */) stored WHERE name = named.schedule_name) own ON true
 CROSS JOIN LATERAL (
       SELECT array_agg(slot) AS slots, array_agg(sent_at) AS sent, array_agg(task_id) AS tasks,
              array_agg(workflow_id) AS workflows, array_agg(ordered_by) AS orders, array_agg(state) AS states,
              array_agg(error_code) AS errors, array_agg(started_at) AS starts, array_agg(ended_at) AS ends
         FROM (SELECT slot, COALESCE(used.sent_at, slot) AS sent_at, task_id, workflow_id, ordered_by,
                      CASE WHEN task_id IS NULL AND workflow_id IS NULL THEN 'SKIPPED'
                           WHEN used.sent_at IS NULL THEN 'PENDING'
                           WHEN task.status = 'PENDING' AND task.next_retry_at > statement_timestamp() THEN 'RETRY'
                           WHEN task.status = 'FAILED' AND task.error_code = 'TASK_INTERRUPTED' THEN 'INTERRUPTED'
                           ELSE COALESCE(task.status, workflow.status, 'PRUNED') END AS state,
                      task.error_code,
                      CASE WHEN task.status NOT IN ('PENDING', 'CLAIMED') THEN task.started_at
                           ELSE workflow.started_at END AS started_at,
                      CASE WHEN task.status NOT IN /* open_tasks */
                           THEN COALESCE(task.completed_at, task.failed_at)
                           WHEN workflow.status NOT IN /* open_workflows */
                           -- Upstream stores no end time when it cancels.
                           THEN COALESCE(workflow.completed_at, workflow.updated_at) END AS ended_at
                 FROM (/* slots */) used
                 LEFT JOIN horsies_tasks task ON task.id = used.task_id
                 LEFT JOIN horsies_workflows workflow ON workflow.id = used.workflow_id
                -- Sorted after the joins, because a hash join keeps no order.
                ORDER BY slot DESC) newest) run
 ORDER BY named.schedule_name

-- name: view_schedulers
-- views/schedules.py; reads only: the running and lost schedulers, most recently seen first
-- ($1 at most, $2 how long ago they may have been seen)
SELECT scheduler_id, hostname, pid, schedules, horsies_version, started_at, seen_at
  FROM horsies_schedulers
 WHERE seen_at > statement_timestamp() - $2::interval
 ORDER BY seen_at DESC, scheduler_id
 LIMIT $1
