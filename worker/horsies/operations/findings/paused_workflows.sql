-- name: diagnose_paused_flows
-- findings/paused_workflows.py; reads only: paused since a node failed, and in need of a decision
-- ($1 how many ids of each name)
SELECT name, count(*)::integer AS count, min(updated_at) AS since, (array_agg(id ORDER BY updated_at, id))[1:$1] AS ids,
       (array_agg(error ORDER BY updated_at, id))[1] AS error
  FROM horsies_workflows
 WHERE status = 'PAUSED' AND on_error = 'pause' AND error IS NOT NULL
 GROUP BY name
 ORDER BY name

-- name: diagnose_decided_flows
-- findings/paused_workflows.py; reads only: PAUSED since a node failed, and an operator completed a node since
-- then: its own task, or child, has not completed
-- ($1 how many ids of each name)
SELECT name, failed, count(*)::integer AS count, min(completed_at) AS since,
       (array_agg(id ORDER BY completed_at, id))[1:$1] AS ids, (array_agg(node ORDER BY completed_at, id))[1] AS node
  FROM (SELECT workflow.id, workflow.name, decided.node, decided.completed_at,
               EXISTS (SELECT FROM horsies_workflow_tasks
                        WHERE workflow_id = workflow.id AND CASE status WHEN 'FAILED' THEN true END) AS failed
          FROM (SELECT id, name, updated_at FROM horsies_workflows
                 WHERE status = 'PAUSED' AND on_error = 'pause' AND error IS NULL OFFSET 0) workflow
         CROSS JOIN LATERAL (
               SELECT COALESCE(node.node_id, node.task_index::text) AS node, node.completed_at
                 FROM horsies_workflow_tasks node
                 LEFT JOIN LATERAL (SELECT status FROM horsies_tasks WHERE id = node.task_id LIMIT 1) task ON true
                 LEFT JOIN LATERAL (SELECT status FROM horsies_workflows WHERE id = node.sub_workflow_id LIMIT 1) child
                        ON true
                WHERE node.workflow_id = workflow.id AND CASE node.status WHEN 'COMPLETED' THEN true END
                      -- A reopening wrote updated_at, and so does each later pause.
                  AND node.completed_at >= workflow.updated_at
                  AND (node.task_id IS NULL AND node.sub_workflow_id IS NULL
                       OR task.status IN ('FAILED', 'CANCELLED', 'EXPIRED') OR child.status IN ('FAILED', 'CANCELLED'))
                ORDER BY node.completed_at DESC, node.task_index
                LIMIT 1) decided) found
 GROUP BY name, failed
 ORDER BY name, failed
