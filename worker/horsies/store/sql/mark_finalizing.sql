-- finishing.mark_finalizing; the token and RUNNING; heap-only, as no index knows these columns
-- ($1 worker, $2 tasks, $3 claimed at)
-- It leaves out a row that another session has locked. That may be the worker's own finish, which waits for one row of its
-- batch and has locked the others; the mark waited for these, and no beat came after it.
WITH free AS MATERIALIZED (
    SELECT task.id, token.number
      FROM unnest($2::text[], $3::timestamptz[]) WITH ORDINALITY AS token (id, claimed_at, number)
      JOIN horsies_tasks task ON task.id = token.id
     WHERE task.id = ANY ($2)
       AND CASE WHEN task.status = 'RUNNING' AND task.claimed_by_worker_id = $1
                THEN task.claimed_at = token.claimed_at END
       FOR NO KEY UPDATE OF task SKIP LOCKED
)
UPDATE horsies_tasks task
   SET finalizing_at = statement_timestamp(), finalizing_by_worker_id = $1, updated_at = statement_timestamp()
  FROM free
 WHERE task.id = ANY (ARRAY(SELECT id FROM free)) AND task.id = free.id
RETURNING free.number
