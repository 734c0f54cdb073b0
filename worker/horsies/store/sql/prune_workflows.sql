-- retention.py; their families are locked, and all of each is still finished and old enough; one that somebody holds is left
-- ($1 age in s, $2 ids, $3 roots that are locked)
WITH whole AS MATERIALIZED (
    -- As in old_workflows.sql, asked again: of a family that was opened meanwhile the rest is finished and old as before.
    SELECT root.id
      FROM unnest($3::text[]) AS root (id)
     WHERE (SELECT relative.id FROM horsies_workflows relative
             WHERE (relative.root_workflow_id = root.id OR relative.id = root.id)
               AND CASE WHEN relative.status IN ('COMPLETED', 'FAILED', 'CANCELLED')
                        THEN COALESCE(relative.completed_at, relative.updated_at, relative.created_at)
                             >= statement_timestamp() - $1 * interval '1 s'
                        ELSE true END
             LIMIT 1) IS NULL
), finished AS MATERIALIZED (
    SELECT id FROM horsies_workflows
     WHERE id = ANY ($2::text[])
       AND CASE WHEN status IN ('COMPLETED', 'FAILED', 'CANCELLED')
                THEN id IN (SELECT id FROM whole) OR root_workflow_id IN (SELECT id FROM whole) END
       FOR UPDATE SKIP LOCKED
), nodes AS (
    DELETE FROM horsies_workflow_tasks WHERE workflow_id = ANY (ARRAY(SELECT id FROM finished)) RETURNING id
), gone AS (
    DELETE FROM horsies_workflows WHERE id = ANY (ARRAY(SELECT id FROM finished)) RETURNING id
)
SELECT (SELECT count(*) FROM gone) AS workflows, (SELECT count(*) FROM nodes) AS workflow_tasks
