-- views/workflow_story.py; reads only ($1 workflow, $2 characters of each text at most): what lists do not show
SELECT left(workflow.result, $2) AS result, octet_length(workflow.result) AS result_size,
       length(workflow.result) > $2 AS result_cut,
       left(workflow.error, $2) AS error, octet_length(workflow.error) AS error_size,
       length(workflow.error) > $2 AS error_cut,
       left(workflow.success_policy::text, $2) AS policy, octet_length(workflow.success_policy::text) AS policy_size,
       length(workflow.success_policy::text) > $2 AS policy_cut,
       workflow.output_task_index,
       parent.id AS parent_id, parent.name, parent.status, workflow.parent_task_index, node.node_id,
       node.status AS node_status
  FROM horsies_workflows workflow
  LEFT JOIN horsies_workflows parent ON parent.id = workflow.parent_workflow_id
  LEFT JOIN horsies_workflow_tasks node
         ON node.workflow_id = parent.id AND node.task_index = workflow.parent_task_index
 WHERE workflow.id = $1
