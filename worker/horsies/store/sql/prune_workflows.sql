-- retention.py; still finished and old enough; one that somebody holds is left ($1 age in s, $2 ids)
WITH finished AS MATERIALIZED (
    SELECT id FROM horsies_workflows
     WHERE id = ANY ($2::text[])
       AND CASE WHEN status IN ('COMPLETED', 'FAILED', 'CANCELLED')
                THEN COALESCE(completed_at, updated_at, created_at) < statement_timestamp() - $1 * interval '1 s' END
       FOR UPDATE SKIP LOCKED
), nodes AS (
    DELETE FROM horsies_workflow_tasks WHERE workflow_id = ANY (ARRAY(SELECT id FROM finished)) RETURNING id
), gone AS (
    DELETE FROM horsies_workflows WHERE id = ANY (ARRAY(SELECT id FROM finished)) RETURNING id
)
SELECT (SELECT count(*) FROM gone) AS workflows, (SELECT count(*) FROM nodes) AS workflow_tasks
