-- name: advance_patience
-- advancing.lock_families; lasts until the end of the caller's transaction
-- ($1 how long to wait for a lock, in PostgreSQL's units)
SELECT set_config('lock_timeout', $1, true)

-- name: advance_lock
-- advancing.lock_families; the roots of these workflows, in the order of their ids as in every transaction
-- ($1 workflows)
SELECT id
  FROM horsies_workflows
 WHERE id = ANY (ARRAY(SELECT COALESCE(root_workflow_id, id) FROM horsies_workflows WHERE id = ANY ($1)))
 ORDER BY id FOR NO KEY UPDATE

-- name: advance_try
-- advancing.try_families; as `advance_lock`, but skips a root that another session has locked ($1 workflows)
WITH asked AS MATERIALIZED (
    SELECT DISTINCT COALESCE(root_workflow_id, id) AS root FROM horsies_workflows WHERE id = ANY ($1)
), locked AS MATERIALIZED (
    SELECT id
      FROM horsies_workflows
     WHERE id = ANY (ARRAY(SELECT root FROM asked))
     ORDER BY id FOR NO KEY UPDATE SKIP LOCKED
)
SELECT root, locked.id IS NOT NULL AS is_ours
  FROM asked
  LEFT JOIN locked ON locked.id = root
       -- A root that was deleted has no row to lock.
 WHERE CASE WHEN locked.id IS NULL THEN (SELECT count(*) FROM horsies_workflows WHERE id = root) = 1 ELSE true END
 ORDER BY root

-- name: advance_holders
-- advancing.lock_families, after its wait has timed out; reads only: who holds the rows of these workflows ($1 roots)
-- The holder of a row lock is not in pg_locks, but its transaction is, and the row names that. Several holders at once
-- are not resolved.
SELECT activity.pid, activity.application_name, activity.usename::text AS role, activity.state,
       round(extract(epoch FROM clock_timestamp() - activity.xact_start))::bigint AS since_s
  FROM horsies_workflows workflow
  JOIN pg_locks lock ON lock.locktype = 'transactionid' AND lock.transactionid = workflow.xmax AND lock.granted
  JOIN pg_stat_activity activity ON activity.pid = lock.pid
 WHERE workflow.id = ANY ($1) AND lock.pid <> pg_backend_pid()
 ORDER BY activity.xact_start
 LIMIT 1

-- name: advance_try_tasks
-- advancing.advance, nodes_started; as `advance_try`, for the workflows of tasks ($1 tasks, $2 roots to leave alone)
WITH asked AS MATERIALIZED (
    SELECT node.task_id, workflow.root
      FROM horsies_workflow_tasks node
     CROSS JOIN LATERAL (SELECT COALESCE(root_workflow_id, id) AS root FROM horsies_workflows
                          WHERE id = node.workflow_id OFFSET 0) workflow
     WHERE node.task_id = ANY ($1)
), locked AS MATERIALIZED (
    SELECT id
      FROM horsies_workflows
     WHERE id = ANY (ARRAY(SELECT DISTINCT root FROM asked WHERE root <> ALL ($2)))
     ORDER BY id FOR NO KEY UPDATE SKIP LOCKED
)
SELECT asked.task_id, asked.root, locked.id IS NOT NULL AS is_ours
  FROM asked
  LEFT JOIN locked ON locked.id = asked.root
       -- A root that was deleted has no row to lock.
 WHERE CASE WHEN locked.id IS NULL THEN (SELECT count(*) FROM horsies_workflows WHERE id = asked.root) = 1 ELSE true END

-- name: advance_ends
-- advancing.advance; the task has ended, the node has not, its workflow is RUNNING or PAUSED; under the families' locks
-- ($1 tasks)
UPDATE horsies_workflow_tasks node
   SET status = CASE WHEN task.status = 'COMPLETED' AND task.result IS NOT NULL THEN 'COMPLETED' ELSE 'FAILED' END,
       result = COALESCE(task.result,
                         '{"__task_result__":true,"ok":null,"err":{"__task_error__":true,"error_code":'
                         || '{"__builtin_task_code__":"'
                         || CASE task.status WHEN 'FAILED' THEN 'WORKER_CRASHED'
                                             WHEN 'CANCELLED' THEN 'TASK_CANCELLED'
                                             WHEN 'EXPIRED' THEN 'TASK_EXPIRED'
                                             ELSE 'RESULT_NOT_AVAILABLE' END
                         || '"},"data":{"task_id":' || to_json(task.id) || '},"message":'
                         || to_json(COALESCE(task.failed_reason,
                                             'its task is ' || task.status || ' and holds no result'))
                         || '}}'),
       started_at = COALESCE(task.started_at, node.started_at),
       completed_at = COALESCE(task.completed_at, task.failed_at, statement_timestamp())
  FROM horsies_tasks task
 WHERE node.task_id = ANY ($1) AND task.id = ANY ($1) AND task.id = node.task_id
       -- Each condition inside a CASE, so that no index is chosen for a state: with statistics from a quiet hour such
       -- an index looks empty.
   AND CASE WHEN node.status NOT IN /* ended_nodes */
            THEN task.status IN /* ended_tasks */
                 AND (SELECT status FROM horsies_workflows WHERE id = node.workflow_id) IN ('RUNNING', 'PAUSED') END
RETURNING node.workflow_id, node.task_index, node.status

-- name: advance_started
-- advancing.nodes_started; the task runs or is tried again, the node is ENQUEUED, its workflow has not ended; under the
-- families' locks ($1 tasks)
UPDATE horsies_workflow_tasks node
   SET status = 'RUNNING', started_at = COALESCE(task.started_at, statement_timestamp())
  FROM horsies_tasks task
 WHERE node.task_id = ANY ($1) AND task.id = ANY ($1) AND task.id = node.task_id
   AND CASE WHEN node.status = 'ENQUEUED'
            THEN (task.status = 'RUNNING' OR task.status IN ('PENDING', 'CLAIMED') AND task.retry_count > 0)
                 AND (SELECT status FROM horsies_workflows WHERE id = node.workflow_id) IN ('RUNNING', 'PAUSED') END
RETURNING node.workflow_id

-- name: advance_wave
-- advancing; PENDING nodes of RUNNING workflows that depend on an ended node, or all of them; under the families' locks
-- ($1 workflows, $2 indexes, NULL for all)
WITH ended AS MATERIALIZED (
    SELECT workflow_id, array_agg(index) AS indexes, bool_or(index IS NULL) AS whole
      FROM unnest($1::text[], $2::integer[]) AS ended (workflow_id, index)
     GROUP BY workflow_id
), judged AS MATERIALIZED (
    SELECT node.id, /* join_verdict */ AS verdict
      FROM ended
     CROSS JOIN LATERAL (SELECT id FROM horsies_workflows
                          WHERE id = ended.workflow_id AND CASE status WHEN 'RUNNING' THEN true END OFFSET 0) workflow
     CROSS JOIN LATERAL (SELECT id, workflow_id, dependencies, join_type, min_success, allow_failed_deps,
                                workflow_ctx_from
                           FROM horsies_workflow_tasks
                          WHERE workflow_id = ended.workflow_id
                            AND status IN /* open_nodes */ AND status = 'PENDING'
                            AND (ended.whole OR dependencies && ended.indexes) OFFSET 0) node
)
UPDATE horsies_workflow_tasks node
   SET status = judged.verdict
  FROM judged
       -- The array limits what is read, also where the planner expects many rows.
 WHERE node.id = ANY (ARRAY(SELECT id FROM judged WHERE verdict IS NOT NULL)) AND node.id = judged.id
RETURNING node.workflow_id, node.task_index, node.status

-- name: advance_end_nodes
-- advancing.end_node, and the ends that follow in an advance; the node has not ended, its workflow is RUNNING or
-- PAUSED; under the families' locks
-- ($1 workflows, $2 indexes, $3 statuses, $4 results, $5 summaries of children)
WITH found AS MATERIALIZED (
    SELECT node.id, ended.status, ended.result, ended.summary
      FROM unnest($1::text[], $2::integer[], $3::text[], $4::text[], $5::text[])
           AS ended (workflow_id, index, status, result, summary)
     CROSS JOIN LATERAL (SELECT id FROM horsies_workflows
                          WHERE id = ended.workflow_id
                            AND CASE WHEN status IN ('RUNNING', 'PAUSED') THEN true END OFFSET 0) workflow
     CROSS JOIN LATERAL (SELECT id FROM horsies_workflow_tasks
                          WHERE workflow_id = ended.workflow_id AND task_index = ended.index OFFSET 0) node
)
UPDATE horsies_workflow_tasks node
   SET status = found.status, result = found.result,
       sub_workflow_summary = COALESCE(found.summary, node.sub_workflow_summary), completed_at = statement_timestamp()
  FROM found
 WHERE node.id = ANY (ARRAY(SELECT id FROM found)) AND node.id = found.id
   AND CASE WHEN node.status NOT IN /* ended_nodes */ THEN true END
RETURNING node.workflow_id, node.task_index, node.status

-- name: advance_failures
-- advancing, after nodes have FAILED; reads only: the first failed node by index of each workflow that stores the error
-- ($1 workflows, $2 indexes)
SELECT DISTINCT ON (failed.workflow_id) failed.workflow_id, failed.index AS task_index, node.node_id, node.result
  FROM unnest($1::text[], $2::integer[]) AS failed (workflow_id, index)
  JOIN horsies_workflows workflow ON workflow.id = failed.workflow_id
 CROSS JOIN LATERAL (SELECT node_id, result FROM horsies_workflow_tasks
                      WHERE workflow_id = failed.workflow_id AND task_index = failed.index OFFSET 0) node
 WHERE workflow.id = ANY ($1) AND (workflow.error IS NULL OR workflow.on_error = 'pause')
 ORDER BY failed.workflow_id, failed.index

-- name: advance_on_error
-- advancing, after nodes have FAILED; keeps an error that is already stored; PAUSED if on_error says so and it is
-- RUNNING; under the families' locks
-- ($1 workflows, $2 errors)
UPDATE horsies_workflows workflow
   SET error = COALESCE(workflow.error, failed.error),
       status = CASE WHEN workflow.on_error = 'pause' AND workflow.status = 'RUNNING' THEN 'PAUSED'
                     ELSE workflow.status END,
       updated_at = statement_timestamp()
  FROM unnest($1::text[], $2::text[]) AS failed (workflow_id, error)
 WHERE workflow.id = ANY ($1) AND workflow.id = failed.workflow_id
RETURNING workflow.id, workflow.status
