-- name: run_schedule_now
-- verbs/schedules.py; defined as the operator saw it
-- ($1 to $6 as in `operation`, $7 schedules, $8 when they were defined, $9 tasks or workflows, $10 fingerprints,
-- $11 sent at)
-- A workflow is only ordered: a scheduler starts it, see `schedule_ordered`.
WITH /* operation */, taken AS (
    SELECT known.schedule_name, known.definition, asked.sent_id, asked.sha, asked.sent_at, asked.number,
           known.definition ->> 'kind' = 'workflow' AS is_workflow
      FROM unnest($7::text[], $8::timestamptz[], $9::text[], $10::text[], $11::timestamptz[]) WITH ORDINALITY
           AS asked (schedule_name, registered_at, sent_id, sha, sent_at, number)
      JOIN horsies_schedules known USING (schedule_name)
     WHERE known.registered_at = asked.registered_at
     ORDER BY known.schedule_name
       FOR SHARE OF known
), sent AS (
    INSERT INTO /* new_task */
    SELECT sent_id, definition ->> 'target', sha, sent_at, definition ->> 'queue', (definition ->> 'priority')::integer,
           definition ->> 'args', definition ->> 'kwargs', definition ->> 'task_options', NULL, NULL,
           statement_timestamp(), (definition ->> 'max_retries')::integer, false, NULL
      FROM taken
     WHERE NOT is_workflow
), recorded AS (
    INSERT INTO horsies_schedule_runs (schedule_name, slot, sent_at, task_id, workflow_id, ordered_by)
    SELECT schedule_name, sent_at, CASE WHEN is_workflow THEN 'infinity' ELSE statement_timestamp() END,
           CASE WHEN NOT is_workflow THEN sent_id END, CASE WHEN is_workflow THEN sent_id END,
           operation.os_user || '@' || operation.os_host
      FROM taken, operation
), audited AS (
    SELECT 'schedule' AS kind, schedule_name AS id, 'applied' AS outcome, NULL AS detail, NULL::jsonb AS before,
           CASE WHEN is_workflow THEN jsonb_build_object('new_workflow_id', sent_id)
                ELSE jsonb_build_object('new_task_id', sent_id) END AS after, NULL::bigint AS undoes, number
      FROM taken
), /* audit */
SELECT schedule_name FROM taken

-- name: pause_schedule
-- verbs/schedules.py; not paused yet
-- ($1 to $6 as in `operation`, $7 schedules, $8 the audit rows that this undoes)
-- A scheduler that is sending a slot holds a lock on the row: this waits for it, and no later slot is sent.
WITH /* operation */, taken AS (
    SELECT known.schedule_name, asked.undoes, asked.number
      FROM unnest($7::text[], $8::bigint[]) WITH ORDINALITY AS asked (schedule_name, undoes, number)
      JOIN horsies_schedules known USING (schedule_name)
     WHERE known.paused_at IS NULL
     ORDER BY known.schedule_name
       FOR NO KEY UPDATE OF known
), paused AS (
    UPDATE horsies_schedules known
       SET paused_at = statement_timestamp(), paused_by = operation.os_user || '@' || operation.os_host,
           reason = operation.reason
      FROM taken, operation
     WHERE known.schedule_name = taken.schedule_name
    RETURNING known.schedule_name, known.paused_at
), audited AS (
    SELECT 'schedule' AS kind, schedule_name AS id, 'applied' AS outcome, NULL AS detail,
           jsonb_build_object('paused_at', NULL) AS before, jsonb_build_object('paused_at', paused_at) AS after,
           taken.undoes, taken.number
      FROM paused
      JOIN taken USING (schedule_name)
), /* audit */
SELECT schedule_name FROM paused

-- name: resume_schedule
-- verbs/schedules.py; paused by the same order as the operator saw, and planned as it was read
-- ($1 to $6 as in `operation`, $7 schedules, $8 the audit rows that this undoes, $9 paused at, $10 next runs as
-- read, $11 next runs)
WITH /* operation */, asked AS (
    SELECT * FROM unnest($7::text[], $8::bigint[], $9::timestamptz[], $10::timestamptz[], $11::timestamptz[])
                  WITH ORDINALITY AS asked (schedule_name, undoes, since, seen, next_run_at, number)
), planned AS MATERIALIZED (
    -- As a scheduler does, the plan first.
    SELECT state.schedule_name, state.next_run_at
      FROM horsies_schedule_state state
      JOIN asked USING (schedule_name)
     ORDER BY state.schedule_name
       FOR NO KEY UPDATE OF state
), taken AS MATERIALIZED (
    SELECT known.schedule_name, known.paused_at, known.paused_by, known.reason, planned.next_run_at AS was,
           asked.next_run_at, asked.undoes, asked.number
      FROM horsies_schedules known
      JOIN asked USING (schedule_name)
      LEFT JOIN planned USING (schedule_name)
     WHERE known.paused_at = asked.since AND planned.next_run_at IS NOT DISTINCT FROM asked.seen
     ORDER BY known.schedule_name
       FOR NO KEY UPDATE OF known
), resumed AS (
    UPDATE horsies_schedules known
       SET paused_at = NULL, paused_by = NULL, reason = NULL
      FROM taken
     WHERE known.schedule_name = taken.schedule_name
    RETURNING known.schedule_name
), moved AS (
    UPDATE horsies_schedule_state state
       SET next_run_at = taken.next_run_at, updated_at = statement_timestamp()
      FROM taken
     WHERE state.schedule_name = taken.schedule_name AND state.next_run_at < taken.next_run_at
), audited AS (
    SELECT 'schedule' AS kind, schedule_name AS id, 'applied' AS outcome, NULL AS detail,
           jsonb_build_object('paused_at', paused_at, 'paused_by', paused_by, 'reason', reason,
                              'next_run_at', was) AS before,
           jsonb_build_object('paused_at', NULL, 'next_run_at', next_run_at) AS after, undoes, number
      FROM resumed
      JOIN taken USING (schedule_name)
), /* audit */
SELECT schedule_name FROM resumed

-- name: skip_slot
-- verbs/schedules.py; not paused, and the slot that the operator saw is still the next one and is sent by no
-- scheduler ($1 to $6 as in `operation`, $7 schedules, $8 the audit rows that this undoes, $9 slots)
WITH /* operation */, planned AS MATERIALIZED (
    -- As a scheduler does, the plan first.
    SELECT state.schedule_name, asked.slot, asked.undoes, asked.number
      FROM unnest($7::text[], $8::bigint[], $9::timestamptz[]) WITH ORDINALITY
           AS asked (schedule_name, undoes, slot, number)
      JOIN horsies_schedule_state state USING (schedule_name)
     WHERE state.next_run_at = asked.slot
     ORDER BY state.schedule_name
       FOR NO KEY UPDATE OF state
), taken AS MATERIALIZED (
    SELECT planned.*, known.skip_slot AS was
      FROM horsies_schedules known
      JOIN planned USING (schedule_name)
     WHERE known.paused_at IS NULL AND known.skip_slot IS DISTINCT FROM planned.slot
     ORDER BY known.schedule_name
       FOR NO KEY UPDATE OF known
), skipped AS (
    UPDATE horsies_schedules known
       SET skip_slot = taken.slot, skipped_by = operation.os_user || '@' || operation.os_host
      FROM taken, operation
     WHERE known.schedule_name = taken.schedule_name
    RETURNING known.schedule_name
), audited AS (
    SELECT 'schedule' AS kind, schedule_name AS id, 'applied' AS outcome, NULL AS detail,
           jsonb_build_object('skip_slot', was) AS before, jsonb_build_object('skip_slot', slot) AS after,
           undoes, number
      FROM skipped
      JOIN taken USING (schedule_name)
), /* audit */
SELECT schedule_name FROM skipped

-- name: take_skip_back
-- operations/undo.py; the slot that was skipped has not passed
-- ($1 to $6 as in `operation`, $7 schedules, $8 the audit rows that this undoes, $9 slots)
WITH /* operation */, taken AS (
    SELECT known.schedule_name, known.skip_slot, asked.undoes, asked.number
      FROM unnest($7::text[], $8::bigint[], $9::timestamptz[]) WITH ORDINALITY
           AS asked (schedule_name, undoes, slot, number)
      JOIN horsies_schedules known USING (schedule_name)
     WHERE known.skip_slot = asked.slot
     ORDER BY known.schedule_name
       FOR NO KEY UPDATE OF known
), restored AS (
    UPDATE horsies_schedules known SET skip_slot = NULL, skipped_by = NULL
      FROM taken
     WHERE known.schedule_name = taken.schedule_name
    RETURNING known.schedule_name
), audited AS (
    SELECT 'schedule' AS kind, schedule_name AS id, 'applied' AS outcome, NULL AS detail,
           jsonb_build_object('skip_slot', skip_slot) AS before, jsonb_build_object('skip_slot', NULL) AS after, undoes,
           number
      FROM restored
      JOIN taken USING (schedule_name)
), /* audit */
SELECT schedule_name FROM restored
