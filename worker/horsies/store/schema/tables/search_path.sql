-- what names in our functions mean, for every session; a part of the schema, run by upgrade.py

-- Where other roles may create functions and operators in this schema, one that fits the types of a call better than
-- PostgreSQL's own would run in its place, with the rights of the sender of a task: pg_notify(text, varchar), or = of two
-- varchars. So calls with arguments are qualified, and texts are compared as text, for which PostgreSQL has the operator.
-- The path keeps out what else the session's own may name. Two kinds have none: those that the planner inlines, whose
-- bodies were bound when they were created, and the triggers of every write of a task, which name all with its schema.
DO $$
DECLARE
    ours regprocedure;
BEGIN
    FOR ours IN SELECT pg_proc.oid
                  FROM pg_proc JOIN pg_namespace ON pg_namespace.oid = pronamespace
                 WHERE nspname = current_schema() AND proname LIKE 'horsies\_%' AND prosqlbody IS NULL
                   AND proname NOT IN ('horsies_notify_task_changes', 'horsies_notify_task_status')
    LOOP
        EXECUTE pg_catalog.format('ALTER FUNCTION %s SET search_path = pg_catalog, %I, pg_temp', ours, current_schema());
    END LOOP;
END
$$;
