-- children.start_child; the node waits for its child; under the family's lock ($1 workflow, $2 index, $3 child)
UPDATE horsies_workflow_tasks
   SET status = 'RUNNING', sub_workflow_id = $3, started_at = statement_timestamp()
 WHERE workflow_id = $1 AND task_index = $2 AND CASE status WHEN 'READY' THEN sub_workflow_id IS NULL END
