-- recovering.expire_pending; PENDING, good_until passed; a row that somebody holds is left for next time
-- ($1 tasks, $2 results)
WITH overdue AS MATERIALIZED (
    SELECT task.id, seen.result
      FROM unnest($1::text[], $2::text[]) AS seen (id, result)
      JOIN horsies_tasks task ON task.id = seen.id
     WHERE task.id = ANY ($1)
       AND CASE WHEN task.status = 'PENDING' THEN task.good_until <= statement_timestamp() END
       FOR NO KEY UPDATE OF task SKIP LOCKED
)
UPDATE horsies_tasks task
   SET status = 'EXPIRED', failed_at = statement_timestamp(), result = overdue.result, error_code = 'TASK_EXPIRED',
       updated_at = statement_timestamp()
  FROM overdue
 WHERE task.id = ANY ($1) AND task.id = overdue.id
RETURNING task.id
