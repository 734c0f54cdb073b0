-- name: damaged_workflows
-- searches/workflows.py; reads only: RUNNING or PAUSED, with a contradictory row ($1 how many)
WITH live AS MATERIALIZED (
    SELECT id, name, updated_at,
           CASE WHEN NOT success_policy @? '$.cases[*].required_indices[*] ? (@.type() == "number")'
                THEN 'its success_policy names no case that could be met' END AS what
      FROM horsies_workflows
     WHERE status IN ('RUNNING', 'PAUSED')
     ORDER BY id
)
SELECT ARRAY[live.id] AS ids, 1 AS count, live.name, live.updated_at AS since, COALESCE(live.what, broken.what, circle.what) AS what
  FROM live
 CROSS JOIN LATERAL (
       SELECT array_agg(task_index) AS indexes,
              array_agg(task_index) FILTER (WHERE status IN /* open_nodes */) AS open,
              count(*) FILTER (WHERE status IN ('READY', 'ENQUEUED', 'RUNNING')) AS moving
         FROM horsies_workflow_tasks
        WHERE workflow_id = live.id) graph
  LEFT JOIN LATERAL (
       SELECT 'its node ' || COALESCE(node_id, task_index::text)
              || CASE WHEN /* join_needs */ IS NULL
                      THEN CASE join_type WHEN 'quorum' THEN ' has a quorum without min_success'
                                          ELSE ' has the join ' || join_type END
                      WHEN jsonb_typeof(args_from) <> 'object' THEN ' has args_from that is not an object'
                      WHEN NOT dependencies <@ graph.indexes THEN ' depends on a node that does not exist'
                      WHEN astray.id IS NOT NULL THEN ' waits for ' || astray.id || ', which names another parent'
                      ELSE ' has the status ' || node.status END AS what
         FROM horsies_workflow_tasks node
         LEFT JOIN LATERAL (
              -- Its end would reach no node, or the wrong node.
              SELECT child.id
                FROM horsies_workflows child
               WHERE child.id = node.sub_workflow_id AND node.status NOT IN /* ended_nodes */
                 AND (child.parent_workflow_id <> node.workflow_id OR child.parent_task_index <> node.task_index)
               LIMIT 1) astray ON true
        WHERE node.workflow_id = live.id
          AND (astray.id IS NOT NULL OR /* join_needs */ IS NULL
               OR jsonb_typeof(args_from) <> 'object' OR NOT dependencies <@ graph.indexes
               OR node.status NOT IN /* open_nodes */ AND node.status NOT IN /* ended_nodes */)
        ORDER BY task_index
        LIMIT 1) broken ON true
 CROSS JOIN LATERAL (
       -- Without a cycle, at least one waiting node would have no open dependency.
       SELECT CASE WHEN graph.moving = 0
                    AND (SELECT bool_and(dependencies && graph.open) FROM horsies_workflow_tasks
                          WHERE workflow_id = live.id AND status = 'PENDING')
                   THEN 'its nodes wait for each other' END AS what) circle
 WHERE COALESCE(live.what, broken.what, circle.what) IS NOT NULL
 ORDER BY live.id
 LIMIT $1

-- name: diagnose_paused_flows
-- searches/workflows.py; reads only: paused since a node failed, and waiting for a decision
-- ($1 how many ids of each name)
SELECT name, count(*)::integer AS count, min(updated_at) AS since, (array_agg(id ORDER BY updated_at, id))[1:$1] AS ids,
       (array_agg(error ORDER BY updated_at, id))[1] AS error
  FROM horsies_workflows
 WHERE status = 'PAUSED' AND on_error = 'pause' AND error IS NOT NULL
 GROUP BY name
 ORDER BY name

-- name: diagnose_decided_flows
-- searches/workflows.py; reads only: PAUSED since a node failed, and an operator completed a node since
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
