-- name: workflow_rights
-- operations/workflows.py, before an action is tried; reads only: the privileges that this role lacks
SELECT privilege || ' ON ' || table_name
  FROM (VALUES ('SELECT', 'horsies_workflows'), ('UPDATE', 'horsies_workflows'), ('INSERT', 'horsies_workflows'),
               ('SELECT', 'horsies_workflow_tasks'), ('UPDATE', 'horsies_workflow_tasks'),
               ('INSERT', 'horsies_workflow_tasks'),
               ('SELECT', 'horsies_tasks'), ('UPDATE', 'horsies_tasks')) AS needed (privilege, table_name)
 WHERE NOT has_table_privilege(to_regclass(table_name), privilege)

-- name: workflow_last_actions
-- operations/workflow_eligibility.py; reads only: the newest operator action on each of these workflows ($1 workflows)
SELECT asked.id, newest.id
  FROM unnest($1::text[]) AS asked (id)
 CROSS JOIN LATERAL (SELECT id FROM horsies_operator_actions
                      WHERE target_kind = 'workflow' AND target_id = asked.id AND outcome = 'applied'
                      ORDER BY id DESC LIMIT 1) newest
