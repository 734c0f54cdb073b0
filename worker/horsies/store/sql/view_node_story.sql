-- views/workflow_story.py; reads only ($1 workflow, $2 index, $3 characters of each text at most): texts of a node
SELECT statement_timestamp() AS now, workflow.id, workflow.name, workflow.status,
       left(task_args, $3) AS args, octet_length(task_args) AS args_size, length(task_args) > $3 AS args_cut,
       left(task_kwargs, $3) AS kwargs, octet_length(task_kwargs) AS kwargs_size, length(task_kwargs) > $3 AS kwargs_cut,
       left(task_options, $3) AS options, octet_length(task_options) AS options_size,
       length(task_options) > $3 AS options_cut,
       left(node.result, $3) AS result, octet_length(node.result) AS result_size,
       length(node.result) > $3 AS result_cut,
       left(sub_workflow_summary, $3) AS summary, octet_length(sub_workflow_summary) AS summary_size,
       length(sub_workflow_summary) > $3 AS summary_cut
  FROM horsies_workflow_tasks node
  JOIN horsies_workflows workflow ON workflow.id = node.workflow_id
 WHERE node.workflow_id = $1 AND task_index = $2
