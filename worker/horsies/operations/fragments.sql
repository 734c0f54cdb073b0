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
