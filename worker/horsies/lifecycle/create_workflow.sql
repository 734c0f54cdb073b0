-- name: insert_workflow
-- create_workflow.py; a new workflow, or nothing if its id exists
-- ($1 id, $2 name, $3 on_error, $4 output index, $5 success policy, $6 definition key, $7 sent at, $8 parent workflow,
-- $9 parent node, $10 depth, $11 root)
INSERT INTO horsies_workflows (id, name, status, on_error, output_task_index, success_policy, definition_key,
                               parent_workflow_id, parent_task_index, depth, root_workflow_id,
                               sent_at, created_at, started_at, updated_at)
VALUES ($1::text, $2, 'RUNNING', $3, $4, $5::jsonb, $6, $8, $9, $10, COALESCE($11::text, $1::text),
        COALESCE($7::timestamptz, statement_timestamp()),
        statement_timestamp(), statement_timestamp(), statement_timestamp())
ON CONFLICT (id) DO NOTHING
RETURNING id

-- name: workflow_name
-- create_workflow.py and handles: whether there is a workflow of this id, and its name ($1 id); reads only
SELECT name FROM horsies_workflows WHERE id::text = $1

-- name: first_difference
-- create_workflow.py; reads only: how a stored workflow differs from a plan, and in which node
-- ($1 workflow, $2 definition key, then of the nodes: $3 indexes, $4 tasks, $5 kwargs, $6 dependencies and $7 sources
-- of arguments as text)
SELECT what, node
  FROM (SELECT -1 AS place, 'another definition' AS what, NULL AS node
          FROM horsies_workflows
         WHERE id::text = $1 AND definition_key::text IS DISTINCT FROM $2::text
        UNION ALL
        SELECT COALESCE(given.index, stored.task_index),
               CASE WHEN given.index IS NULL OR stored.task_index IS NULL THEN 'other nodes, as to'
                    WHEN given.task_name <> stored.task_name::text THEN 'another task for'
                    WHEN given.kwargs <> stored.task_kwargs THEN 'other arguments for'
                    ELSE 'other dependencies of' END,
               COALESCE(stored.node_id, COALESCE(given.index, stored.task_index)::text)
          FROM unnest($3::int[], $4::text[], $5::text[], $6::text[], $7::text[])
                   AS given (index, task_name, kwargs, dependencies, args_from)
          FULL JOIN (SELECT * FROM horsies_workflow_tasks WHERE workflow_id::text = $1) AS stored
                 ON stored.task_index = given.index
         WHERE (given.index, given.task_name, given.kwargs, given.dependencies::int[]::text, given.args_from::jsonb)
               IS DISTINCT FROM
               (stored.task_index, stored.task_name::text, stored.task_kwargs, stored.dependencies::text,
                stored.args_from)) found
 ORDER BY place
 LIMIT 1

-- name: insert_nodes
-- create_workflow.py; the nodes of a workflow that this transaction has made
-- ($1 workflow, then one array per column; arrays inside them travel as text)
INSERT INTO horsies_workflow_tasks (id, workflow_id, task_index, node_id, task_name, task_args, task_kwargs, queue_name,
                                    priority, dependencies, args_from, workflow_ctx_from, allow_failed_deps, join_type,
                                    min_success, task_options, status, is_subworkflow, sub_workflow_name,
                                    sub_definition_key, created_at)
SELECT node.id, $1, node.index, node.node_id, node.task_name, '[]', node.kwargs, node.queue_name,
       node.priority, node.dependencies::int[], node.args_from::jsonb, node.ctx_from::varchar(128)[],
       node.allow_failed_deps, node.join_type, node.min_success, node.task_options,
       CASE WHEN node.dependencies = '{}' THEN 'READY' ELSE 'PENDING' END,
       node.definition_key IS NOT NULL, CASE WHEN node.definition_key IS NOT NULL THEN node.task_name END,
       node.definition_key, statement_timestamp()
  FROM unnest($2::text[], $3::int[], $4::text[], $5::text[], $6::text[], $7::text[], $8::int[], $9::text[],
              $10::text[], $11::text[], $12::bool[], $13::text[], $14::int[], $15::text[], $16::text[])
       AS node (id, index, node_id, task_name, kwargs, queue_name, priority, dependencies,
                args_from, ctx_from, allow_failed_deps, join_type, min_success, task_options, definition_key)

-- name: copied_options
-- create_workflow.py; reads only ($1 the original)
SELECT task_index, task_options, CASE sub_definition_key WHEN '__horsies_map__' THEN task_kwargs END AS map_kwargs,
       statement_timestamp() AS now
  FROM horsies_workflow_tasks
 WHERE workflow_id = $1
 ORDER BY task_index

-- name: copy_workflow_row
-- create_workflow.py; a copy as a root workflow ($1 the original, $2 the copy)
INSERT INTO horsies_workflows (id, name, status, on_error, output_task_index, success_policy, definition_key, depth,
                               root_workflow_id, sent_at, created_at, started_at, updated_at)
SELECT $2, name, 'RUNNING', on_error, output_task_index, success_policy, definition_key, 0,
       $2, statement_timestamp(), statement_timestamp(), statement_timestamp(), statement_timestamp()
  FROM horsies_workflows
 WHERE id = $1

-- name: copy_nodes
-- create_workflow.py; the nodes of a copy that this transaction has made
-- ($1 the original, $2 the copy, $3 indexes, $4 new ids, $5 task options, $6 kwargs of maps)
INSERT INTO horsies_workflow_tasks (id, workflow_id, task_index, node_id, task_name, task_args, task_kwargs, queue_name,
                                    priority, dependencies, args_from, workflow_ctx_from, allow_failed_deps, join_type,
                                    min_success, task_options, status, is_subworkflow, sub_workflow_name,
                                    sub_definition_key, created_at)
SELECT copy.id, $2, node.task_index, node.node_id, node.task_name, node.task_args,
       COALESCE(copy.map_kwargs, node.task_kwargs), node.queue_name, node.priority, node.dependencies, node.args_from,
       node.workflow_ctx_from, node.allow_failed_deps, node.join_type,
       node.min_success, copy.task_options, CASE WHEN node.dependencies = '{}' THEN 'READY' ELSE 'PENDING' END,
       node.is_subworkflow, node.sub_workflow_name, node.sub_definition_key, statement_timestamp()
  FROM unnest($3::integer[], $4::text[], $5::text[], $6::text[]) AS copy (index, id, task_options, map_kwargs)
  JOIN horsies_workflow_tasks node ON node.workflow_id = $1 AND node.task_index = copy.index

-- name: child_waiting
-- create_workflow.ready_children; reads only: READY nodes of RUNNING workflows whose child is to be built, oldest workflow
-- first
-- ($1 workflows, NULL for any, $2 how many)
SELECT node.workflow_id, node.task_index
  FROM horsies_workflow_tasks node
 CROSS JOIN LATERAL (SELECT id FROM horsies_workflows
                      WHERE id = node.workflow_id AND CASE status WHEN 'RUNNING' THEN true END OFFSET 0) workflow
 WHERE node.is_subworkflow AND node.sub_workflow_id IS NULL AND node.status = 'READY'
   AND ($1::text[] IS NULL OR node.workflow_id = ANY ($1))
 ORDER BY node.workflow_id, node.task_index
 LIMIT $2

-- name: child_parent
-- create_workflow.py; reads only, under the family's lock: the workflow of a node that still waits for its child
-- ($1 workflow, $2 index)
SELECT workflow.depth, COALESCE(workflow.root_workflow_id, workflow.id) AS root
  FROM horsies_workflows workflow
  JOIN horsies_workflow_tasks node ON node.workflow_id = workflow.id
 WHERE workflow.id = $1 AND node.workflow_id = $1 AND node.task_index = $2
   AND CASE WHEN workflow.status = 'RUNNING' AND node.status = 'READY' THEN node.sub_workflow_id IS NULL END

-- name: child_link
-- create_workflow.start_child; the node waits for its child; under the family's lock ($1 workflow, $2 index, $3 child)
UPDATE horsies_workflow_tasks
   SET status = 'RUNNING', sub_workflow_id = $3, started_at = statement_timestamp()
 WHERE workflow_id = $1 AND task_index = $2 AND CASE status WHEN 'READY' THEN sub_workflow_id IS NULL END
