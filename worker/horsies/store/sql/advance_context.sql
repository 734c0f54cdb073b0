-- node_tasks; reads only: the ended nodes of each node's context ($1 workflows and $2 indexes of the readers, $3 how many
-- bytes to read)
SELECT asked.workflow_id, asked.index AS reader, source.node_id, source.task_index, source.status,
       CASE WHEN octet_length(source.result) <= $3 THEN source.result END AS result,
       COALESCE(octet_length(source.result), 0) AS result_bytes,
       CASE WHEN octet_length(source.sub_workflow_summary) <= $3 THEN source.sub_workflow_summary END AS summary,
       COALESCE(octet_length(source.sub_workflow_summary), 0) AS summary_bytes
  FROM unnest($1::text[], $2::integer[]) AS asked (workflow_id, index)
 CROSS JOIN LATERAL (SELECT dependencies, workflow_ctx_from FROM horsies_workflow_tasks
                      WHERE workflow_id = asked.workflow_id AND task_index = asked.index OFFSET 0) reader
 CROSS JOIN LATERAL (SELECT * FROM horsies_workflow_tasks
                      WHERE workflow_id = asked.workflow_id AND task_index = ANY (reader.dependencies) OFFSET 0) source
 WHERE source.node_id = ANY (reader.workflow_ctx_from) AND source.status IN ('COMPLETED', 'FAILED', 'SKIPPED')
 ORDER BY source.task_index
