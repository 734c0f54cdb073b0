-- reopening.reopen_for_tasks; reads only: nodes that ended badly, of tasks that live again ($1 tasks)
SELECT node.workflow_id, node.task_index
  FROM horsies_workflow_tasks node
  JOIN horsies_tasks task ON task.id = node.task_id
 WHERE node.task_id = ANY ($1::text[]) AND node.status IN ('FAILED', 'SKIPPED')
   AND task.status IN ('PENDING', 'CLAIMED', 'RUNNING')
