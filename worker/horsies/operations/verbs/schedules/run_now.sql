-- name: run_schedule_now
-- verbs/schedules/run_now.py; defined as the operator saw it
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
