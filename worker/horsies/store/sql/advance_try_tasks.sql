-- advancing.advance, nodes_started; as advance_try.sql, for the workflows of tasks ($1 tasks, $2 roots to leave alone)
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
       -- A root that was deleted is locked by nobody.
 WHERE CASE WHEN locked.id IS NULL THEN (SELECT count(*) FROM horsies_workflows WHERE id = asked.root) = 1 ELSE true END
