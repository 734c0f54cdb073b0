-- name: stuck_workflows
-- reconciling.stuck_workflows; reads only: RUNNING and inconsistent; the cases are those of repairs.py
-- ($1 grace in ms, $2 after this id, $3 how many)
-- One workflow after the other and each row by its index, so that the cost depends on open rows, not on stored ones:
-- with EXISTS and joins, the planner would hash all tasks and workflows. 10 000 workflows with 70 000 open nodes take
-- 0.2 s.
WITH live AS MATERIALIZED (
    SELECT id FROM horsies_workflows WHERE status = 'RUNNING' AND id > $2 ORDER BY id
)
SELECT live.id
  FROM live
 CROSS JOIN LATERAL (
       SELECT COALESCE(bool_or(CASE
                  WHEN node.task_id IS NOT NULL THEN
                       task.status IS NULL
                       OR task.status IN /* ended_tasks */
                          AND task.ended_at <= statement_timestamp() - $1 * interval '1 ms'
                       OR task.status = 'RUNNING' AND node.status <> 'RUNNING'
                          AND COALESCE(task.started_at <= statement_timestamp() - $1 * interval '1 ms', true)
                       OR task.status IN ('PENDING', 'CLAIMED') AND node.status IN ('PENDING', 'READY')
                  WHEN node.is_subworkflow AND (node.status <> 'PENDING' OR child.status IS NOT NULL) THEN
                       COALESCE(child.status IN /* ended_workflows */ OR node.status <> 'RUNNING', true)
                  WHEN node.status <> 'PENDING' THEN true
                  ELSE /* join_verdict */ IS NOT NULL
                  -- No open node: the workflow should have ended.
                  END), true) AS is_so
         FROM horsies_workflow_tasks node
         LEFT JOIN LATERAL (SELECT status, started_at, COALESCE(completed_at, failed_at, updated_at) AS ended_at
                              FROM horsies_tasks WHERE id = node.task_id LIMIT 1) task ON true
         LEFT JOIN LATERAL (SELECT status FROM horsies_workflows WHERE id = node.sub_workflow_id LIMIT 1) child ON true
        WHERE node.workflow_id = live.id AND node.status IN /* open_nodes */
       ) stuck
 WHERE stuck.is_so
 ORDER BY live.id
 LIMIT $3

-- name: reconcile_link
-- reconciling.reconcile; not ended; under the family's lock ($1 workflow, $2 indexes, $3 new statuses)
UPDATE horsies_workflow_tasks node
   SET status = mended.status
  FROM unnest($2::integer[], $3::text[]) AS mended (index, status)
 WHERE node.workflow_id = $1 AND node.task_index = mended.index
   AND node.status NOT IN /* ended_nodes */
