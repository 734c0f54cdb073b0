-- name: rerun_sources
-- verbs/tasks/rerun.py, before the statement that stores the copies; locks the rows until then ($1 tasks)
SELECT id, task_name, queue_name, priority, args, kwargs, task_options,
       CASE WHEN good_until > statement_timestamp() THEN good_until END AS good_until,
       -- The clock of the server: the fingerprint of a copy contains the time of its send.
       statement_timestamp() AS now
  FROM horsies_tasks
 WHERE id = ANY ($1::text[])
 ORDER BY id
   FOR NO KEY UPDATE

-- name: rerun_refusal
-- fragment of `task_judged`; no action on the original since it was seen
-- The locks of `rerun_sources` let it see an operator action that was committed a moment before.
COALESCE(
    (SELECT concat('it was acted on by hand meanwhile: ', verb, ' by ', os_user, '@', os_host)
       FROM horsies_operator_actions
      WHERE target_kind = 'task' AND target_id = compared.id AND outcome = 'applied'
        AND id > COALESCE(compared.last_action, 0)
      ORDER BY id DESC LIMIT 1),
    /* key */)

-- name: rerun_inserts
-- fragment of `task_change`; inserts the copies of what is not refused
-- ($17 ids of the copies, $18 fingerprints, $19 args, $20 kwargs, $21 task options, $22 max retries, $23 good until,
-- $24 sent at)
copied AS (
    INSERT INTO horsies_tasks (id, task_name, enqueue_sha, sent_at, queue_name, priority, args, kwargs, task_options,
                               good_until, unique_key, enqueued_at, max_retries, rerun_of)
    SELECT copy.id, original.task_name, copy.fingerprint, copy.sent_at, original.queue_name, original.priority, copy.args,
           copy.kwargs, copy.task_options, copy.good_until, original.unique_key, statement_timestamp(), copy.max_retries,
           original.id
      FROM judged
      JOIN unnest($17::text[], $18::text[], $19::text[], $20::text[], $21::text[], $22::integer[], $23::timestamptz[],
                  $24::timestamptz[]) WITH ORDINALITY
           AS copy (id, fingerprint, args, kwargs, task_options, max_retries, good_until, sent_at, number)
           ON copy.number = judged.number
      JOIN horsies_tasks original ON original.id = ANY ($7) AND original.id = judged.id
     WHERE CASE WHEN judged.refusal IS NULL THEN true END
    RETURNING id, rerun_of, status, queue_name, retry_count, max_retries, enqueued_at, claimed_at, started_at, failed_at
), changed AS (
    SELECT judged.number, copied.* FROM copied JOIN judged ON judged.id = copied.rerun_of
)
