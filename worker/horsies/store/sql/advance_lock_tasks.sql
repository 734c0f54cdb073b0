-- advancing.advance, nodes_started; as advance_lock.sql, for the workflows of tasks ($1 tasks)
SELECT id
  FROM horsies_workflows
 WHERE id = ANY (ARRAY(SELECT COALESCE(root_workflow_id, id)
                         FROM horsies_workflows
                        WHERE id = ANY (ARRAY(SELECT workflow_id FROM horsies_workflow_tasks WHERE task_id = ANY ($1)))))
 ORDER BY id FOR NO KEY UPDATE
