-- advancing.end_node and what it does itself; the node has not ended, its workflow is RUNNING or PAUSED; under the families'
-- locks ($1 workflows, $2 indexes, $3 statuses, $4 results, $5 summaries of children)
WITH found AS MATERIALIZED (
    SELECT node.id, ended.status, ended.result, ended.summary
      FROM unnest($1::text[], $2::integer[], $3::text[], $4::text[], $5::text[])
           AS ended (workflow_id, index, status, result, summary)
     CROSS JOIN LATERAL (SELECT id FROM horsies_workflows
                          WHERE id = ended.workflow_id
                            AND CASE WHEN status IN ('RUNNING', 'PAUSED') THEN true END OFFSET 0) workflow
     CROSS JOIN LATERAL (SELECT id FROM horsies_workflow_tasks
                          WHERE workflow_id = ended.workflow_id AND task_index = ended.index OFFSET 0) node
)
UPDATE horsies_workflow_tasks node
   SET status = found.status, result = found.result,
       sub_workflow_summary = COALESCE(found.summary, node.sub_workflow_summary), completed_at = statement_timestamp()
  FROM found
 WHERE node.id = ANY (ARRAY(SELECT id FROM found)) AND node.id = found.id
   AND CASE WHEN node.status NOT IN ('COMPLETED', 'FAILED', 'SKIPPED') THEN true END
RETURNING node.workflow_id, node.task_index, node.status
