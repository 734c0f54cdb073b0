-- node_tasks; reads only: ended nodes whose results others are given ($1 workflows, $2 indexes, $3 how many bytes to read)
SELECT asked.workflow_id, asked.index, source.status,
       CASE WHEN octet_length(source.result) <= $3 THEN source.result END AS result,
       COALESCE(octet_length(source.result), 0) AS result_bytes
  FROM unnest($1::text[], $2::integer[]) AS asked (workflow_id, index)
 CROSS JOIN LATERAL (SELECT status, result FROM horsies_workflow_tasks
                      WHERE workflow_id = asked.workflow_id AND task_index = asked.index OFFSET 0) source
 WHERE source.status IN ('COMPLETED', 'FAILED', 'SKIPPED')
