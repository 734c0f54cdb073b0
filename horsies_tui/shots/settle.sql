-- scene.py, last: the number of rows that the planner knows is shown, and shall not change by itself.
ALTER TABLE horsies_tasks SET (autovacuum_enabled = false);
ALTER TABLE horsies_workflows SET (autovacuum_enabled = false);
SET session_replication_role = DEFAULT;
ANALYZE horsies_tasks, horsies_workflows;
