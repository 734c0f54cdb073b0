-- planting.plant; a new workflow, or nothing where its id is taken
-- ($1 id, $2 name, $3 on_error, $4 output index, $5 success policy, $6 definition key, $7 sent at, $8 parent workflow,
--  $9 parent node, $10 depth, $11 root)
INSERT INTO horsies_workflows (id, name, status, on_error, output_task_index, success_policy, definition_key,
                               parent_workflow_id, parent_task_index, depth, root_workflow_id,
                               sent_at, created_at, started_at, updated_at)
VALUES ($1::text, $2, 'RUNNING', $3, $4, $5::jsonb, $6, $8, $9, $10, COALESCE($11::text, $1::text),
        COALESCE($7::timestamptz, statement_timestamp()),
        statement_timestamp(), statement_timestamp(), statement_timestamp())
ON CONFLICT (id) DO NOTHING
RETURNING id
