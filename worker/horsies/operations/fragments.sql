-- name: operation
-- fragment of every statement of the verbs: what the audit rows of an operation share; reads only
-- ($1 operation, $2 verb, $3 OS user, $4 OS host, $5 reason, $6 filter)
operation AS (
    SELECT $1::uuid AS id, $2::text AS verb, $3::text AS os_user, $4::text AS os_host, $5::text AS reason,
           $6::text AS filter
)

-- name: audit
-- fragment of every statement of the verbs: one audit row for each row of `audited`; writes only those
audit AS (
    -- The server adds the time and the role that logged in.
    INSERT INTO horsies_operator_actions (operation_id, verb, target_kind, target_id, outcome, detail, before_state,
                                          after_state, os_user, os_host, reason, filter, undoes)
    SELECT operation.id, operation.verb, audited.kind, audited.id, audited.outcome, audited.detail, audited.before,
           audited.after, operation.os_user, operation.os_host, operation.reason, operation.filter, audited.undoes
      FROM audited
     CROSS JOIN operation
     ORDER BY audited.number
)

-- name: present_state
-- fragment: why a task that differs from what was seen, or was skipped, is not changed
'it is ' || present.status
|| CASE WHEN present.status IN /* tasks_in_flight */
        THEN ' on ' || COALESCE(present.claimed_by_worker_id, 'an unknown worker') ELSE '' END
|| ' now, try ' || present.retry_count + 1

-- name: acted_on
-- fragment: that another operator has acted on the task since it was seen; it reads `last_action`, so it is for verbs
-- with guards_against_others
(SELECT concat('an operator has acted on it since the preview: ', verb, ' by ', os_user, '@', os_host)
   FROM horsies_operator_actions
  WHERE target_kind = 'task' AND target_id = compared.id AND outcome = 'applied'
    AND id > COALESCE(compared.last_action, 0)
  ORDER BY id DESC LIMIT 1)

-- name: key_holder
-- fragment: that another live task has the unique key of the task
(SELECT 'its unique key is held by the live task ' || other.id
   FROM horsies_tasks other
  WHERE other.unique_key = compared.unique_key AND other.task_name = compared.task_name AND other.id <> compared.id
    AND other.status IN /* open_tasks */)

-- name: key_taken
-- fragment: why an ended task cannot be reopened with its unique key
CASE WHEN compared.was_final AND compared.unique_key IS NOT NULL THEN
     COALESCE(/* key_holder */,
              -- If several selected tasks share a key, the last one gets it.
              'its unique key goes to the selected task '
              || NULLIF(max(compared.id COLLATE "C") FILTER (WHERE compared.was_final AND compared.difference IS NULL)
                        OVER (PARTITION BY compared.unique_key, compared.task_name), compared.id)) END

-- name: task_columns
-- fragment: what a verb's refusal may ask of a task, besides its id, `last_action` and `difference`
present.task_name, present.status, present.queue_name, present.priority, present.unique_key, present.enqueued_at,
present.next_retry_at, present.good_until,
present.status IN /* ended_tasks */ AS was_final

-- name: judged
-- fragment: the tasks as they are now, locked, and why each is not changed
-- ($1 to $6 as in `operation`; $7 tasks, and as seen: $8 statuses, $9 owners, $10 claimed at, $11 retry counts, $12 error
-- codes, $13 newest audit rows; $14 the states that the verb changes; `refusal` is that of the verb)
present AS (
    SELECT id, task_name, status, queue_name, priority, claimed_by_worker_id, claimed_at, claim_expires_at, started_at,
           completed_at, failed_at, retry_count, max_retries, enqueued_at, next_retry_at, good_until, error_code,
           failed_reason, worker_hostname, worker_pid, worker_process_name, finalizing_at, unique_key,
           -- The result that undo restores. A larger one is not kept, and undo reports that.
           CASE WHEN octet_length(result) <= 65536 THEN result END AS result,
           CASE WHEN octet_length(result) > 65536 THEN true END AS result_left_out
      FROM horsies_tasks
     WHERE id = ANY ($7)
       -- Every statement locks in this order, so that no two deadlock; after a wait it reads the row as the other session
       -- left it, and can report that.
     ORDER BY id FOR NO KEY UPDATE
), compared AS (
    SELECT seen.number, seen.id, seen.last_action, /* task_columns */, present.retry_count, present.max_retries,
           present.claimed_by_worker_id, present.claimed_at, present.started_at,
           present.worker_hostname, present.worker_pid, present.worker_process_name,
           CASE WHEN present.status NOT IN ('PENDING', 'CLAIMED')
                THEN COALESCE((SELECT attempt FROM horsies_task_attempts
                                WHERE task_id = present.id ORDER BY attempt DESC LIMIT 1), 0) END AS last_attempt,
           CASE WHEN present.id IS NULL THEN 'its row was deleted'
                WHEN (present.status, present.claimed_by_worker_id, present.claimed_at, present.retry_count,
                      present.error_code)
                     IS DISTINCT FROM (seen.status, seen.worker_id, seen.claimed_at, seen.retry_count, seen.error_code)
                     OR present.status <> ALL ($14::text[])
                THEN /* present_state */
           END AS difference
      FROM unnest($7::text[], $8::text[], $9::text[], $10::timestamptz[], $11::integer[], $12::text[], $13::bigint[])
           WITH ORDINALITY AS seen (id, status, worker_id, claimed_at, retry_count, error_code, last_action, number)
      LEFT JOIN present ON present.id = seen.id
), judged AS MATERIALIZED (
    SELECT compared.*, CASE WHEN difference IS NOT NULL THEN difference ELSE /* refusal */ END AS refusal
      FROM compared
)
