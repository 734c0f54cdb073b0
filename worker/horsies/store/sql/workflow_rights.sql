-- operations/workflows.py, before a verb is tried; reads only: what this role lacks
SELECT privilege || ' ON ' || table_name
  FROM (VALUES ('SELECT', 'horsies_workflows'), ('UPDATE', 'horsies_workflows'), ('INSERT', 'horsies_workflows'),
               ('SELECT', 'horsies_workflow_tasks'), ('UPDATE', 'horsies_workflow_tasks'),
               ('INSERT', 'horsies_workflow_tasks'),
               ('SELECT', 'horsies_tasks'), ('UPDATE', 'horsies_tasks')) AS needed (privilege, table_name)
 WHERE NOT has_table_privilege(to_regclass(table_name), privilege)
