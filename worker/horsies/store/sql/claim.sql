-- claiming.claim; what horsies_claimable of migration 008 finds and locks
-- ($1 worker, $2 queue, $3 how many, $4 lease in ms, $5 task names, NULL for any, $6 pids of children that wait for work,
--  $7 host name, $8 `after` of the last claim, or NULL)
WITH first_ones AS MATERIALIZED (
    SELECT ids, large, after FROM horsies_claimable($2, $5, $3, $8)
), placed AS (
    -- As many as there are waiting children pass through CLAIMED within the statement: nobody could do anything with a claim
    -- that its owner starts at once, and start.sql would be one more trip and one more version of the row. Not so a large
    -- one: its arguments are yet to be fetched.
    SELECT one.id, one.large, one.pid, one.place, one.pid IS NOT NULL AND NOT one.large AS starts,
           CASE WHEN one.place = 1 THEN after END AS after
      FROM first_ones, unnest(ids, large, $6::integer[]) WITH ORDINALITY AS one (id, large, pid, place)
)
UPDATE horsies_tasks task
   SET status = CASE WHEN starts THEN 'RUNNING' ELSE 'CLAIMED' END,
       claimed = NOT starts, claimed_by_worker_id = $1,
       -- The second half of the token. Not now(): two claims of a row in one transaction must differ.
       claimed_at = statement_timestamp(),
       claim_expires_at = CASE WHEN NOT starts THEN statement_timestamp() + $4 * interval '1 ms' END,
       started_at = CASE WHEN starts THEN statement_timestamp() END,
       worker_pid = CASE WHEN starts THEN pid END,
       worker_hostname = CASE WHEN starts THEN $7 END,
       worker_process_name = CASE WHEN starts THEN 'worker-' || pid END,
       finalizing_at = NULL, finalizing_by_worker_id = NULL,
       updated_at = statement_timestamp()
  FROM placed
       -- The array bounds what is read whatever the plan expects from the limit: one made while the table was empty reads
       -- all of it.
 WHERE task.id = ANY ((SELECT ids FROM first_ones)::text[]) AND task.id = placed.id
       -- A claim that a crash of the server undoes has started nothing, and the commit of its start makes it durable.
       -- One task: 0.07 ms instead of 0.23 ms; 50 tasks: 0.61 ms instead of 0.79 ms.
   AND (cardinality($6) > 0 OR (SELECT set_config('synchronous_commit', 'off', true)) = 'off')
RETURNING task.id, task.claimed_at, date_part('epoch', task.enqueued_at) AS enqueued_at, task.task_name,
          task.queue_name, task.priority,
          CASE WHEN NOT large THEN task.args END AS args, CASE WHEN NOT large THEN task.kwargs END AS kwargs, large,
          task.task_options, task.retry_count, task.max_retries, task.is_workflow_task,
          CASE WHEN starts THEN place - 1 END AS place, after
