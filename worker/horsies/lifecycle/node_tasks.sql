-- name: advance_ready
-- node_tasks; reads only: READY nodes of RUNNING workflows that have no task or child yet
-- ($1 workflows, $2 indexes, NULL for all)
SELECT node.workflow_id, node.task_index, node.task_name, node.task_kwargs, node.queue_name, node.priority,
       node.args_from::text AS args_from, cardinality(node.workflow_ctx_from) > 0 AS has_context, node.task_options,
       node.is_subworkflow, node.sub_definition_key, statement_timestamp() AS now, node.node_id
  FROM unnest($1::text[], $2::integer[]) AS asked (workflow_id, index)
 CROSS JOIN LATERAL (SELECT id FROM horsies_workflows
                      WHERE id::text = asked.workflow_id AND CASE status::text WHEN 'RUNNING' THEN true END OFFSET 0) workflow
 CROSS JOIN LATERAL (SELECT * FROM horsies_workflow_tasks
                      WHERE workflow_id::text = asked.workflow_id
                        -- A range, for which an index can be used, unlike for an OR.
                        AND task_index BETWEEN COALESCE(asked.index, -2147483648) AND COALESCE(asked.index, 2147483647)
                        AND status::text IN /* open_nodes */ AND status::text = 'READY'
                        AND task_id IS NULL AND sub_workflow_id IS NULL OFFSET 0) node
 ORDER BY node.workflow_id, node.task_index

-- name: advance_announce
-- node_tasks; notifies workers that these workflows have nodes whose child is to be built ($1 workflows)
SELECT pg_notify('horsies_workflow_ready', id) FROM unnest($1::text[]) AS id

-- name: advance_enqueue
-- node_tasks; the node is READY without a task; under the families' locks
-- ($1 workflows, $2 indexes, $3 tasks, $4 names, $5 fingerprints, $6 sent at, $7 queues, $8 priorities, $9 kwargs,
--  $10 options, $11 good until, $12 max retries)
WITH found AS MATERIALIZED (
    SELECT node.id, new.task_id
      FROM unnest($1::text[], $2::integer[], $3::text[]) AS new (workflow_id, index, task_id)
     CROSS JOIN LATERAL (SELECT id FROM horsies_workflow_tasks
                          WHERE workflow_id::text = new.workflow_id AND task_index = new.index OFFSET 0) node
), linked AS (
    UPDATE horsies_workflow_tasks node
       SET status = 'ENQUEUED', task_id = found.task_id
      FROM found
     WHERE node.id::text = ANY (ARRAY(SELECT id::text FROM found)) AND node.id::text = found.id::text
       AND CASE WHEN node.status::text = 'READY' THEN node.task_id IS NULL END
    RETURNING node.task_id
)
INSERT INTO /* new_task */
SELECT new.id, new.task_name, new.enqueue_sha, new.sent_at, new.queue_name, new.priority, NULL, new.kwargs,
       new.task_options, new.good_until, NULL, now(), new.max_retries, true, NULL
  FROM unnest($3::text[], $4::text[], $5::text[], $6::timestamptz[], $7::text[], $8::integer[], $9::text[],
              $10::text[], $11::timestamptz[], $12::integer[])
       AS new (id, task_name, enqueue_sha, sent_at, queue_name, priority, kwargs, task_options, good_until, max_retries)
  JOIN linked ON linked.task_id::text = new.id
RETURNING id

-- name: advance_sources
-- node_tasks; reads only: ended nodes whose results are used as arguments
-- ($1 workflows, $2 indexes, $3 how many bytes to read)
SELECT asked.workflow_id, asked.index, source.status,
       CASE WHEN octet_length(source.result) <= $3 THEN source.result END AS result,
       COALESCE(octet_length(source.result), 0) AS result_bytes
  FROM unnest($1::text[], $2::integer[]) AS asked (workflow_id, index)
 CROSS JOIN LATERAL (SELECT status, result FROM horsies_workflow_tasks
                      WHERE workflow_id = asked.workflow_id AND task_index = asked.index OFFSET 0) source
 WHERE source.status IN /* ended_nodes */

-- name: advance_context
-- node_tasks; reads only: the ended nodes of each node's context
-- ($1 workflows and $2 indexes of the readers, $3 how many bytes to read)
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
 WHERE source.node_id = ANY (reader.workflow_ctx_from) AND source.status IN /* ended_nodes */
 ORDER BY source.task_index

-- name: reference_texts
-- node_tasks.resolved; reads only: the results of nodes ($1 workflows, $2 indexes)
SELECT asked.workflow_id, asked.index, node.result, node.sub_workflow_summary
  FROM unnest($1::text[], $2::integer[]) AS asked (workflow_id, index)
 CROSS JOIN LATERAL (SELECT result, sub_workflow_summary FROM horsies_workflow_tasks
                      WHERE workflow_id = asked.workflow_id AND task_index = asked.index OFFSET 0) node

-- name: nodes_of_tasks
-- node_tasks.note_spans; reads only, under the families' locks ($1 tasks)
SELECT id, task_id, task_options FROM horsies_workflow_tasks WHERE task_id = ANY ($1::text[])

-- name: note_spans
-- node_tasks.note_spans; under the families' locks; no state changes ($1 nodes, $2 their options with the span)
UPDATE horsies_workflow_tasks node
   SET task_options = noted.options
  FROM unnest($1::text[], $2::text[]) AS noted (id, options)
 WHERE node.id = ANY ($1) AND node.id = noted.id

-- name: dependency_options
-- node_tasks.spans_before; reads only, under the families' locks ($1 workflows, $2 indexes)
SELECT asked.workflow_id, asked.index, source.task_options
  FROM unnest($1::text[], $2::integer[]) AS asked (workflow_id, index)
 CROSS JOIN LATERAL (SELECT dependencies FROM horsies_workflow_tasks
                      WHERE workflow_id = asked.workflow_id AND task_index = asked.index OFFSET 0) node
 CROSS JOIN LATERAL (SELECT task_index, task_options FROM horsies_workflow_tasks
                      WHERE workflow_id = asked.workflow_id AND task_index = ANY (node.dependencies)
                        AND task_options LIKE '%"span":%'
                      ORDER BY task_index LIMIT 32) source
 ORDER BY asked.workflow_id, asked.index, source.task_index
