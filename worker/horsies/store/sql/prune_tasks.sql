-- retention.py; still final, old enough and of no unfinished workflow; one that somebody holds is left ($1 age in s, $2 ids)
WITH gone AS (
    DELETE FROM horsies_tasks
     WHERE id = ANY (ARRAY(
               SELECT id FROM horsies_tasks task
                WHERE id = ANY ($2::text[])
                      -- Inside a CASE only the primary key fits, whatever statistics say of the others (see start.sql).
                  AND CASE WHEN status IN ('COMPLETED', 'FAILED', 'CANCELLED', 'EXPIRED')
                           THEN COALESCE(completed_at, failed_at, updated_at, created_at)
                                < statement_timestamp() - $1 * interval '1 s' END
                  AND (SELECT workflow.id FROM horsies_workflow_tasks node
                         JOIN horsies_workflows workflow ON workflow.id = node.workflow_id
                        WHERE node.task_id = task.id AND workflow.status NOT IN ('COMPLETED', 'FAILED', 'CANCELLED')
                        LIMIT 1) IS NULL
                  FOR UPDATE OF task SKIP LOCKED))
    RETURNING id
)
SELECT count(*) AS tasks FROM gone
