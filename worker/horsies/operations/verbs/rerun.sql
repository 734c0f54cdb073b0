-- name: rerun_sources
-- verbs/rerun.py, before the statement that stores the copies; locks the rows until then ($1 tasks)
SELECT id, task_name, queue_name, priority, args, kwargs, task_options,
       CASE WHEN good_until > statement_timestamp() THEN good_until END AS good_until,
       -- The clock of the server: the fingerprint of a copy contains the time of its send.
       statement_timestamp() AS now
  FROM horsies_tasks
 WHERE id = ANY ($1::text[])
 ORDER BY id
   FOR NO KEY UPDATE

-- name: rerun_arguments
-- verbs/rerun.py, with edited arguments and in their preview; reads only: what they replace ($1 task)
SELECT args, kwargs FROM horsies_tasks WHERE id = $1

-- name: rerun_refusal
-- fragment of `judged`; no action on the original since it was seen
-- The locks of `rerun_sources` let it see an operator action that was committed a moment before.
COALESCE(
    /* acted_on */,
    /* key_taken */)

-- name: rerun_change
-- verbs/rerun.py, in place of `task_change`; inserts the copies of what is not refused
-- (parameters of `judged`, $15 ids of the copies, $16 fingerprints, $17 args, $18 kwargs, $19 task options,
-- $20 max retries, $21 good until, $22 sent at)
WITH /* operation */, /* judged */, copied AS (
    INSERT INTO /* new_task */
    SELECT copy.id, original.task_name, copy.enqueue_sha, copy.sent_at, original.queue_name, original.priority,
           copy.args, copy.kwargs, copy.task_options, copy.good_until, original.unique_key, statement_timestamp(),
           copy.max_retries, false, original.id
      FROM unnest($7::text[], $15::text[], $16::text[], $17::text[], $18::text[], $19::text[], $20::integer[],
                  $21::timestamptz[], $22::timestamptz[])
           AS copy (original, id, enqueue_sha, args, kwargs, task_options, max_retries, good_until, sent_at)
      JOIN horsies_tasks original ON original.id = copy.original
     WHERE copy.original IN (SELECT id FROM judged WHERE refusal IS NULL)
    RETURNING id, rerun_of
), audited AS (
    SELECT judged.number, 'task' AS kind, judged.id, NULL::bigint AS undoes, judged.refusal AS detail,
           CASE WHEN copied.id IS NULL THEN 'refused' ELSE 'applied' END AS outcome,
           jsonb_strip_nulls(jsonb_build_object('status', judged.status)) AS before,
           CASE WHEN copied.id IS NOT NULL THEN jsonb_build_object('new_task_id', copied.id) END AS after
      FROM judged
      LEFT JOIN copied ON copied.rerun_of = judged.id
), /* audit */
SELECT judged.number, judged.refusal, copied.id, NULL AS status, 0 AS retry_count
  FROM judged
  LEFT JOIN copied ON copied.rerun_of = judged.id
