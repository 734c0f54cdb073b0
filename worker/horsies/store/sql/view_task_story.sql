-- views/detail.py; reads only ($1 task, $2 characters of each text at most, $3 copies at most): what lists do not show
SELECT left(args, $2) AS args, octet_length(args) AS args_size, length(args) > $2 AS args_cut,
       left(kwargs, $2) AS kwargs, octet_length(kwargs) AS kwargs_size, length(kwargs) > $2 AS kwargs_cut,
       left(task_options, $2) AS options, octet_length(task_options) AS options_size,
       length(task_options) > $2 AS options_cut,
       left(result, $2) AS result, octet_length(result) AS result_size, length(result) > $2 AS result_cut,
       left(failed_reason, $2) AS reason, octet_length(failed_reason) AS reason_size,
       length(failed_reason) > $2 AS reason_cut,
       -- Tables made by upstream lack rerun_of: then the name in the subquery means this one, and nothing is found.
       ARRAY(SELECT id FROM horsies_tasks WHERE rerun_of = $1 ORDER BY created_at DESC, id DESC LIMIT $3) AS reruns,
       node.*
  FROM (VALUES (NULL::text)) AS absent (rerun_of)
 CROSS JOIN horsies_tasks task
  LEFT JOIN LATERAL (
        SELECT workflow_id, workflow.name, workflow.status AS workflow_status, task_index, node_id,
               node.status AS node_status
          FROM horsies_workflow_tasks node
          JOIN horsies_workflows workflow ON workflow.id = node.workflow_id
         WHERE node.task_id = task.id
         LIMIT 1) node ON true
 WHERE task.id = $1
