-- name: damaged_workflows
-- findings/damaged_workflows.py; reads only: RUNNING or PAUSED, with a row that makes no sense ($1 how many)
WITH live AS MATERIALIZED (
    SELECT id, name, updated_at,
           CASE WHEN NOT success_policy @? '$.cases[*].required_indices[*] ? (@.type() == "number")'
                THEN 'its success_policy names no case that could be met' END AS what
      FROM horsies_workflows
     WHERE status IN ('RUNNING', 'PAUSED')
     ORDER BY id
)
SELECT live.id, live.name, live.updated_at AS since, COALESCE(live.what, broken.what, circle.what) AS what
  FROM live
 CROSS JOIN LATERAL (
       SELECT array_agg(task_index) AS indexes,
              array_agg(task_index) FILTER (WHERE status IN ('PENDING', 'READY', 'ENQUEUED', 'RUNNING')) AS open,
              count(*) FILTER (WHERE status IN ('READY', 'ENQUEUED', 'RUNNING')) AS moving
         FROM horsies_workflow_tasks
        WHERE workflow_id = live.id) graph
  LEFT JOIN LATERAL (
       SELECT 'its node ' || COALESCE(node_id, task_index::text)
              || CASE WHEN join_type NOT IN ('all', 'any', 'quorum') THEN ' has the join ' || join_type
                      WHEN join_type = 'quorum' AND min_success IS NULL THEN ' has a quorum without min_success'
                      WHEN jsonb_typeof(args_from) <> 'object' THEN ' has args_from that is no object'
                      WHEN NOT dependencies <@ graph.indexes THEN ' depends on a node that does not exist'
                      WHEN astray.id IS NOT NULL THEN ' waits for ' || astray.id || ', which names another parent'
                      ELSE ' has the status ' || node.status END AS what
         FROM horsies_workflow_tasks node
         LEFT JOIN LATERAL (
              -- Its end would reach no node, or the wrong one.
              SELECT child.id
                FROM horsies_workflows child
               WHERE child.id = node.sub_workflow_id AND node.status NOT IN ('COMPLETED', 'FAILED', 'SKIPPED')
                 AND (child.parent_workflow_id <> node.workflow_id OR child.parent_task_index <> node.task_index)
               LIMIT 1) astray ON true
        WHERE node.workflow_id = live.id
          AND (astray.id IS NOT NULL OR join_type NOT IN ('all', 'any', 'quorum') OR join_type = 'quorum' AND min_success IS NULL
               OR jsonb_typeof(args_from) <> 'object' OR NOT dependencies <@ graph.indexes
               OR node.status NOT IN ('PENDING', 'READY', 'ENQUEUED', 'RUNNING', 'COMPLETED', 'FAILED', 'SKIPPED'))
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
