-- by_hand.rerun, second half; the original as the person saw it, final, not acted on since; the unique key free
-- ($1 originals, and as seen: $2 statuses, $3 owners, $4 claimed at, $5 retry counts; $6 operation, $7 verb, $8 OS user,
--  $9 OS host, $10 reason, $11 filter; $12 newest actions as seen, $13 ids of the copies, $14 fingerprints, $15 args,
--  $16 kwargs, $17 task options, $18 max retries, $19 good until, $20 sent at)
-- In the same transaction as hand_sources.sql, whose locks make it see what an operator has done a moment before.
WITH compared AS MATERIALIZED (
    SELECT seen.*, task.task_name, task.queue_name, task.priority, task.unique_key, task.status AS status_now,
           CASE WHEN task.id IS NULL THEN 'it is gone: its row was deleted'
                WHEN (task.status, task.claimed_by_worker_id, task.claimed_at, task.retry_count)
                     IS DISTINCT FROM (seen.status, seen.worker_id, seen.claimed_at, seen.retry_count)
                     OR task.status NOT IN ('COMPLETED', 'FAILED', 'CANCELLED', 'EXPIRED')
                THEN 'it is ' || task.status
                     || CASE WHEN task.status IN ('CLAIMED', 'RUNNING')
                             THEN ' on ' || COALESCE(task.claimed_by_worker_id, 'an unknown worker') ELSE '' END
                     || ' now, try ' || task.retry_count + 1
           END AS difference
      FROM unnest($1::text[], $2::text[], $3::text[], $4::timestamptz[], $5::integer[], $12::bigint[], $13::text[],
                  $14::text[], $15::text[], $16::text[], $17::text[], $18::integer[], $19::timestamptz[],
                  $20::timestamptz[]) WITH ORDINALITY
           AS seen (original, status, worker_id, claimed_at, retry_count, last_action, copy, fingerprint, args, kwargs,
                    task_options, max_retries, good_until, sent_at, number)
      LEFT JOIN horsies_tasks task ON task.id = seen.original
), judged AS MATERIALIZED (
    SELECT compared.*,
           CASE WHEN difference IS NOT NULL THEN difference
                ELSE COALESCE(
                    (SELECT concat('it was acted on by hand meanwhile: ', verb, ' by ', os_user, '@', os_host)
                       FROM horsies_operator_actions
                      WHERE target_kind = 'task' AND target_id = compared.original AND outcome = 'applied'
                        AND id > COALESCE(compared.last_action, 0)
                      ORDER BY id DESC LIMIT 1),
                    (SELECT 'its unique key is held by the live task ' || other.id
                       FROM horsies_tasks other
                      WHERE other.unique_key = compared.unique_key
                        AND other.status IN ('PENDING', 'CLAIMED', 'RUNNING')),
                    (SELECT 'its unique key goes to the copy of ' || twin.original
                       FROM compared twin
                      WHERE twin.unique_key = compared.unique_key AND twin.difference IS NULL
                        AND twin.number > compared.number
                      LIMIT 1))
           END AS refusal
      FROM compared
), copied AS (
    INSERT INTO horsies_tasks (id, task_name, enqueue_sha, sent_at, queue_name, priority, args, kwargs, task_options,
                               good_until, unique_key, enqueued_at, max_retries, rerun_of)
    SELECT copy, task_name, fingerprint, sent_at, queue_name, priority, args, kwargs, task_options, good_until,
           unique_key, statement_timestamp(), max_retries, original
      FROM judged
     WHERE refusal IS NULL
    RETURNING id
), audit AS (
    INSERT INTO horsies_operator_actions (operation_id, verb, target_kind, target_id, outcome, detail, before_state,
                                          after_state, os_user, os_host, reason, filter)
    SELECT $6::uuid, $7::text, 'task', judged.original, CASE WHEN copied.id IS NULL THEN 'refused' ELSE 'applied' END, judged.refusal,
           jsonb_strip_nulls(jsonb_build_object('status', judged.status_now)),
           CASE WHEN copied.id IS NOT NULL THEN jsonb_build_object('new_task_id', copied.id) END,
           $8::text, $9::text, $10::text, $11::text
      FROM judged
      LEFT JOIN copied ON copied.id = judged.copy
     ORDER BY judged.number
)
SELECT judged.number, judged.refusal, 0 AS retry_count
  FROM judged
  LEFT JOIN copied ON copied.id = judged.copy
