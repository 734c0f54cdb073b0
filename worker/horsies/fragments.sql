-- name: back_in_queue
-- fragment: the SET of every statement that makes a task PENDING again; a start or an outcome under its token finds
-- nothing
status = 'PENDING', claimed = false, claimed_at = NULL, claimed_by_worker_id = NULL, claim_expires_at = NULL,
started_at = NULL, worker_pid = NULL, worker_hostname = NULL, worker_process_name = NULL,
finalizing_at = NULL, finalizing_by_worker_id = NULL

-- name: new_task
-- fragment: the columns of a task that is sent, in the order in which each statement that sends tasks gives them; not a
-- CTE that all would fill, which makes a send that is not prepared 70 µs slower than 210
horsies_tasks (id, task_name, enqueue_sha, sent_at, queue_name, priority, args, kwargs, task_options, good_until,
               unique_key, enqueued_at, max_retries, is_workflow_task, rerun_of)

-- name: history
-- fragment: the attempts of the runs that have ended, in the statement that ends them: an attempt for each row of
-- `runs`, whose retry_count is that of the run
-- After an operator's requeue that reset retry_count, the next free number is used; else one such row would fail its
-- whole batch at each try. Costs 0.02 ms for 50 tasks. No number follows the largest one, which a row that was written
-- by hand may have: then the time in ms is one, so that every task can be ended. To look for a free one would cost
-- each finish 5 µs of 145: also a subquery that is not run is set up.
-- A run has waited since it was due. An interrupted task keeps its due time, and waits since its last run ended.
history AS (
    INSERT INTO horsies_task_attempts (task_id, attempt, outcome, will_retry, started_at, finished_at, error_code,
                                       error_message, failed_reason, worker_id, worker_hostname, worker_pid,
                                       worker_process_name, output, waited_ms)
    SELECT id,
           COALESCE(NULLIF(GREATEST(retry_count, last.attempt), 2147483647) + 1,
                    ((date_part('epoch', clock_timestamp()) * 1000)::bigint % 2147483647)::integer),
           outcome, will_retry, started_at, runs.finished_at, error_code, error_message, failed_reason, worker_id,
           worker_hostname, worker_pid, worker_process_name, output,
           LEAST(GREATEST(date_part('epoch', started_at) - date_part('epoch', GREATEST(enqueued_at, last.finished_at)), 0) * 1000,
                 2147483647)::integer
      FROM runs
      LEFT JOIN LATERAL (SELECT attempt, finished_at FROM horsies_task_attempts WHERE task_id = runs.id
                          ORDER BY attempt DESC LIMIT 1) last ON true
)

-- name: queues_notified
-- fragment: a condition that is true, and notifies the workers of the queues of `woken` of its notices, each once
-- No trigger notifies of a task that is PENDING again, nor of room under a cap: workers would wait for their next poll.
-- A channel name has at most 63 bytes, so no worker listens to a queue with a longer name than 52.
(SELECT count(pg_notify('task_queue_' || queue_name, notice))
   FROM (SELECT DISTINCT queue_name, notice FROM woken WHERE octet_length(queue_name) <= 52) queue) >= 0

-- name: workers_notified
-- fragment: a condition that is true, and notifies the workers of `taken` that they have lost a task, whose code they stop
(SELECT count(pg_notify('horsies_operator', worker_id))
   FROM (SELECT DISTINCT worker_id FROM taken WHERE worker_id IS NOT NULL) owner) >= 0

-- name: claim_beat
-- fragment: the newest beat of the present claim of `task`
(SELECT sent_at FROM horsies_heartbeats
  WHERE task_id = task.id AND role = 'claimer' AND sent_at >= task.claimed_at
  ORDER BY sent_at DESC LIMIT 1)

-- name: run_beat
-- fragment: the newest beat of the present run of `task`; those of an earlier attempt do not count
(SELECT sent_at FROM horsies_heartbeats
  WHERE task_id = task.id AND role = 'runner' AND sent_at >= task.started_at
  ORDER BY sent_at DESC LIMIT 1)

-- name: crashed
-- fragment of the recovery report and of acknowledgements; reads only: tasks that failed because their worker died, newest
-- first, without an operator action since; a recovery of the worker is what made them fail, and does not count, nor does
-- an acknowledgement that was undone, whose undo is then the newest action
-- By ix_horsies_tasks_crashed, and one probe of ix_horsies_operator_actions_target for each of them.
crashed AS MATERIALIZED (
    SELECT task.*
      FROM (SELECT id, task_name, queue_name, failed_at, claimed_by_worker_id, worker_pid, failed_reason FROM horsies_tasks
             WHERE status = 'FAILED' AND error_code = 'WORKER_CRASHED'
             ORDER BY failed_at DESC
             LIMIT 5000) task
      LEFT JOIN LATERAL (
            SELECT verb, undoes FROM horsies_operator_actions
             WHERE target_kind = 'task' AND target_id = task.id AND outcome = 'applied' AND verb <> 'recover'
               AND acted_at >= task.failed_at
             ORDER BY id DESC LIMIT 1) newest ON true
     WHERE newest.verb IS NULL
        OR newest.verb = 'undo'
           AND (SELECT verb FROM horsies_operator_actions WHERE id = newest.undoes) = 'acknowledge'
)

-- name: knows_of_death
-- fragment: the row of `action` says that an operator knows of the losses of its worker until then
action.target_kind = 'worker' AND action.outcome = 'applied' AND action.verb IN ('acknowledge', 'recover')
AND NOT EXISTS (SELECT FROM horsies_operator_actions undo WHERE undo.undoes = action.id AND undo.outcome = 'applied')

-- name: join_needs
-- fragment: how many dependencies of `node` must complete before it runs; without dependencies it is ready, whatever its
-- join. NULL: its row is damaged, and it waits until an operator decides. NodeRow.needs is the same for rows in memory.
CASE WHEN node.join_type = 'quorum' AND node.min_success IS NULL THEN NULL
     WHEN node.join_type NOT IN ('all', 'any', 'quorum') THEN NULL
     WHEN node.join_type = 'all' OR cardinality(node.dependencies) = 0 THEN 0
     WHEN node.join_type = 'any' THEN 1
     ELSE node.min_success END

-- name: join_verdict
-- fragment: READY or SKIPPED by the join of `node`, which is PENDING. NULL: it waits, or its row is damaged.
-- NodeRow.joined is the same for rows in memory.
-- States of dependencies are inside a CASE, as in `starting`, except those for which ix_horsies_workflow_tasks_open is
-- made.
(SELECT CASE WHEN verdict = 'SKIPPED' OR NOT open OR node.workflow_ctx_from IS NULL
                  -- All nodes of its context must have ended, even if its join needs fewer of them.
                  OR NOT EXISTS (SELECT FROM horsies_workflow_tasks dependency
                                  WHERE dependency.workflow_id = node.workflow_id
                                    AND dependency.task_index = ANY (node.dependencies)
                                    AND CASE WHEN dependency.status NOT IN /* ended_nodes */
                                             THEN true END
                                    AND dependency.node_id = ANY (node.workflow_ctx_from))
             THEN verdict END
   FROM (SELECT open,
                CASE WHEN needs IS NULL THEN NULL
                     WHEN node.dependencies = '{}' THEN 'READY'
                     WHEN node.join_type = 'any' THEN
                          CASE WHEN EXISTS (SELECT FROM horsies_workflow_tasks dependency
                                             WHERE dependency.workflow_id = node.workflow_id
                                               AND dependency.task_index = ANY (node.dependencies)
                                               AND CASE dependency.status WHEN 'COMPLETED' THEN true END) THEN 'READY'
                               WHEN NOT open THEN 'SKIPPED' END
                     WHEN node.join_type = 'quorum' THEN
                          (SELECT CASE WHEN count(*) FILTER (WHERE dependency.status = 'COMPLETED') >= needs
                                       THEN 'READY'
                                       WHEN count(*) FILTER (WHERE dependency.status NOT IN ('FAILED', 'SKIPPED')) < needs
                                       THEN 'SKIPPED' END
                             FROM horsies_workflow_tasks dependency
                            WHERE dependency.workflow_id = node.workflow_id
                              AND dependency.task_index = ANY (node.dependencies))
                     WHEN open THEN NULL
                     WHEN NOT node.allow_failed_deps
                          AND EXISTS (SELECT FROM horsies_workflow_tasks dependency
                                       WHERE dependency.workflow_id = node.workflow_id
                                         AND dependency.task_index = ANY (node.dependencies)
                                         AND CASE WHEN dependency.status IN ('FAILED', 'SKIPPED') THEN true END)
                     THEN 'SKIPPED'
                     ELSE 'READY' END AS verdict
           FROM (SELECT /* join_needs */ AS needs,
                        -- A node with an unknown status has not ended: checked only where no node is open.
                        CASE WHEN EXISTS (SELECT FROM horsies_workflow_tasks dependency
                                           WHERE dependency.workflow_id = node.workflow_id
                                             AND dependency.task_index = ANY (node.dependencies)
                                             AND dependency.status IN /* open_nodes */)
                             THEN true
                             ELSE EXISTS (SELECT FROM horsies_workflow_tasks dependency
                                           WHERE dependency.workflow_id = node.workflow_id
                                             AND dependency.task_index = ANY (node.dependencies)
                                             AND CASE WHEN dependency.status NOT IN /* ended_nodes */
                                                      THEN true END) END AS open
                 OFFSET 0) dependencies
         OFFSET 0) judged)

-- name: levels
-- fragment: each level (a priority of a queue) at which a task waits, with its oldest one, by one probe of
-- ix_horsies_tasks_ready each
level AS (
    (SELECT queue_name, priority, enqueued_at FROM horsies_tasks
      WHERE status = 'PENDING' ORDER BY queue_name, priority, enqueued_at LIMIT 1)
     UNION ALL
    SELECT next.queue_name, next.priority, next.enqueued_at
      FROM level
     CROSS JOIN LATERAL (SELECT queue_name, priority, enqueued_at FROM horsies_tasks
                          WHERE status = 'PENDING' AND (queue_name, priority) > (level.queue_name, level.priority)
                          ORDER BY queue_name, priority, enqueued_at LIMIT 1) next
)
