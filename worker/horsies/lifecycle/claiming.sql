-- name: claim
-- claiming.claim; PENDING rows that horsies_may_run, locked; if too few of the first rows may run, those that
-- horsies_claimable finds
-- ($1 worker, $2 queue, $3 how many, $4 lease in ms, $5 task names, NULL for any, $6 pids of child processes that wait
-- for work, $7 host name, $8 `following`: NULL, the row ids of the tasks that come next, or none to search at once)
WITH head AS MATERIALIZED (
    /* rows */
), search AS MATERIALIZED (
    -- Skipped if the queue has no more rows than were read: a call of the function costs a claim of one task 0.05 ms.
    SELECT (SELECT count(*) FROM head) < LEAST($3, 256)
       AND ($8::tid[] IS NOT NULL
            OR EXISTS (SELECT FROM (SELECT FROM horsies_tasks WHERE status = 'PENDING' AND queue_name = $2
                                     ORDER BY priority, enqueued_at, id LIMIT 256) waiting
                       OFFSET 2 * $3 + 15)) AS needed
           -- Asynchronous commit: a claim that is lost in a crash of the server has started nothing, and the commit of
           -- its start makes it durable. One task: 0.07 ms instead of 0.23 ms; 50 tasks: 0.61 ms instead of 0.79 ms.
     WHERE cardinality($6::integer[]) > 0 OR (SELECT set_config('synchronous_commit', 'off', true)) = 'off'
), first_ones AS (
    SELECT found_at, large, row_number() OVER () AS position, number, NULL::tid[] AS after
      FROM head
     WHERE NOT (SELECT needed FROM search)
     UNION ALL
    SELECT one.found_at, one.large, one.position, NULL, CASE WHEN one.position = 1 THEN more.after END
      FROM horsies_claimable($2::text, $5::text[], $3::integer) more,
           unnest(more.found_at, more.large) WITH ORDINALITY AS one (found_at, large, position)
     WHERE (SELECT needed FROM search)
), /* placed */
/* take */

-- name: placed
-- fragment of `claim` and `finish_and_claim`: which of `first_ones` start at once, and in which child process
placed AS (
    -- As many tasks as there are waiting child processes pass through CLAIMED within the statement: no other session
    -- could use a claim that its owner starts at once, and `start` would cost a round trip and a row version more.
    -- Large tasks do not: their arguments must be fetched first.
    SELECT found_at, large, position, number, after, ($6::integer[])[position] AS pid,
           ($6::integer[])[position] IS NOT NULL AND NOT large AS starts
      FROM first_ones
)

-- name: take
-- fragment of `claim` and `finish_and_claim`: takes the rows of `placed`, which are locked
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
       -- By ctid: found by id, or collected in arrays, each task would take 10 µs more than its 280 µs. If another
       -- session has changed a row since this statement began, the new version is locked, which the update does not
       -- see: the next claim takes it.
 WHERE task.ctid = placed.found_at
RETURNING task.id, task.claimed_at, date_part('epoch', task.enqueued_at) AS enqueued_at, task.task_name,
          task.queue_name, task.priority,
          CASE WHEN NOT large THEN task.args END AS args, CASE WHEN NOT large THEN task.kwargs END AS kwargs, large,
          task.task_options, task.retry_count, task.max_retries, task.is_workflow_task,
          CASE WHEN starts THEN position - 1 END AS position, number, after,
          date_part('epoch', task.sent_at) AS sent_at, date_part('epoch', task.good_until) AS good_until

-- name: first_rows
-- fragment of `claim` and `finish_and_claim`: the first rows of the queue that may run; as in horsies_claimable, which
-- is called only if this finds fewer than wanted
SELECT task.ctid AS found_at, NULL::bigint AS number,
       COALESCE(octet_length(task.args), 0) + COALESCE(octet_length(task.kwargs), 0) > 65536 AS large
  FROM (SELECT *
          FROM (SELECT ctid AS place, priority, enqueued_at, id
                  FROM horsies_tasks
                 WHERE status = 'PENDING' AND queue_name = $2 AND $8::tid[] IS NULL
                   AND NOT EXISTS (SELECT FROM horsies_queue_state
                                    WHERE queue_name = $2 AND paused_at IS NOT NULL)
                 ORDER BY priority, enqueued_at, id
                 LIMIT 256) ordered
         ORDER BY priority, enqueued_at, id
         LIMIT 2 * $3 + 16) first
  JOIN horsies_tasks task ON task.ctid = first.place
 WHERE task.status = 'PENDING' AND ($5::text[] IS NULL OR task.task_name = ANY ($5))
   AND horsies_may_run(task.id, task.enqueued_at, task.next_retry_at, task.good_until,
                       task.is_workflow_task, task.workflow_paused_at)
 ORDER BY first.priority, first.enqueued_at, first.id
 LIMIT $3 FOR NO KEY UPDATE OF task SKIP LOCKED

-- name: following_rows
-- fragment of both, in place of `first_rows`: the rows of `following` that may run, as horsies_claimable finds them
-- By ctid and without the function: one task takes 35 µs less of the server's time than by id.
SELECT task.ctid AS found_at, first.number,
       COALESCE(octet_length(task.args), 0) + COALESCE(octet_length(task.kwargs), 0) > 65536 AS large
  FROM unnest($8::tid[]) WITH ORDINALITY AS first (row_id, number)
  JOIN horsies_tasks task ON task.ctid = first.row_id
 WHERE NOT EXISTS (SELECT FROM horsies_queue_state WHERE queue_name = $2 AND paused_at IS NOT NULL)
   AND CASE WHEN task.status = 'PENDING' AND task.queue_name = $2
             AND ($5::text[] IS NULL OR task.task_name = ANY ($5))
            THEN horsies_may_run(task.id, task.enqueued_at, task.next_retry_at, task.good_until,
                                 task.is_workflow_task, task.workflow_paused_at) END
 ORDER BY first.number
 LIMIT $3::integer FOR NO KEY UPDATE OF task SKIP LOCKED

-- name: release_expired
-- claiming.release_expired; CLAIMED, the lease has expired; skips rows that another session has locked
-- ($1 queues)
-- Their worker died between claim and start, or does not respond. The token is removed: a start under it finds nothing.
WITH released AS (
    UPDATE horsies_tasks
       SET /* back_in_queue */, updated_at = statement_timestamp()
     WHERE id = ANY (ARRAY(SELECT id FROM horsies_tasks
                            WHERE status = 'CLAIMED' AND queue_name = ANY ($1::text[])
                              AND claim_expires_at < statement_timestamp()
                            LIMIT 500 FOR NO KEY UPDATE SKIP LOCKED))
    RETURNING queue_name
), woken AS (
    SELECT queue_name, 'capacity:released' AS notice FROM released
)
SELECT count(*) FROM released WHERE /* queues_notified */

-- name: claim_capped
-- claiming.claim_capped; as `claim`, within the caps: horsies_claim_capped of the schema holds their locks
-- ($1 worker, $2 queues, $3 their caps, $4 budget, $5 cluster cap, $6 hard, $7 lease in ms,
--  $8 task names, NULL for any)
-- Four queues and 250 to 3 000 tasks in flight: one task 0.22 ms (`claim`: 0.11), 50 tasks 1.4 ms (0.74).
SELECT task.id, task.claimed_at, date_part('epoch', task.enqueued_at) AS enqueued_at, task.task_name,
       task.queue_name, task.priority,
       CASE WHEN COALESCE(octet_length(task.args), 0) + COALESCE(octet_length(task.kwargs), 0) <= 65536
            THEN task.args END AS args,
       CASE WHEN COALESCE(octet_length(task.args), 0) + COALESCE(octet_length(task.kwargs), 0) <= 65536
            THEN task.kwargs END AS kwargs,
       COALESCE(octet_length(task.args), 0) + COALESCE(octet_length(task.kwargs), 0) > 65536 AS large,
       task.task_options, task.retry_count, task.max_retries, task.is_workflow_task,
       NULL AS position, NULL AS number, NULL AS after,
       date_part('epoch', task.sent_at) AS sent_at, date_part('epoch', task.good_until) AS good_until
  FROM horsies_claim_capped($1::text, $2::text[], $3::integer[], $4::integer, $5::integer, $6::boolean,
                            $7::float8 * interval '1 ms', $8::text[]) task

-- name: large_arguments
-- claiming.large_arguments; the token ($1 task, $2 worker, $3 claimed at)
SELECT args, kwargs
  FROM horsies_tasks
 WHERE id = $1 AND CASE WHEN status IN /* tasks_in_flight */ AND claimed_by_worker_id = $2 THEN claimed_at = $3 END

-- name: release
-- claiming.release; the token and CLAIMED: user code has not been called ($1 worker, $2 tasks, $3 claimed at)
WITH released AS (
    UPDATE horsies_tasks task
       SET /* back_in_queue */, updated_at = statement_timestamp()
      FROM unnest($2::text[], $3::timestamptz[]) WITH ORDINALITY AS token (id, claimed_at, number)
     WHERE task.id = ANY ($2) AND task.id = token.id
       AND CASE WHEN task.status = 'CLAIMED' AND task.claimed_by_worker_id = $1
                THEN task.claimed_at = token.claimed_at END
    RETURNING token.number, task.queue_name
), woken AS (
    SELECT queue_name, 'capacity:released' AS notice FROM released
)
SELECT number FROM released WHERE /* queues_notified */

-- name: unaccounted
-- claiming.unaccounted; reads only: what `take_back` would release ($1 worker, $2 tasks that it knows, $3 claimed at), in
-- the order of the columns of `take`, without arguments
SELECT status = 'CLAIMED' AS is_claimed, id, claimed_at, 0 AS enqueued_at, task_name, queue_name, priority,
       NULL AS args, NULL AS kwargs, false AS large, task_options, retry_count, max_retries, is_workflow_task
  FROM horsies_tasks
 WHERE status IN /* tasks_in_flight */ AND claimed_by_worker_id = $1
   AND (id, claimed_at) NOT IN (SELECT id, claimed_at FROM unnest($2::text[], $3::timestamptz[])
                                    AS known (id, claimed_at))
 ORDER BY id

-- name: take_back
-- claiming.take_back; CLAIMED or RUNNING by this worker, and the token is none of those that it knows
-- ($1 worker, $2 tasks that it knows, $3 claimed at)
-- It includes RUNNING rows and so uses ix_horsies_tasks_in_flight, which covers all workers; it runs only after a
-- failure.
WITH lost AS MATERIALIZED (
    SELECT id, claimed_at
      FROM horsies_tasks
     WHERE status IN /* tasks_in_flight */ AND claimed_by_worker_id = $1
       AND (id, claimed_at) NOT IN (SELECT id, claimed_at FROM unnest($2::text[], $3::timestamptz[])
                                        AS known (id, claimed_at))
     ORDER BY id
       -- It waits for a row that is being changed, perhaps by the statement whose reply was lost.
       FOR NO KEY UPDATE
), returned AS (
    UPDATE horsies_tasks task
       SET /* back_in_queue */, updated_at = statement_timestamp()
      FROM lost
     WHERE task.id = ANY (ARRAY(SELECT id FROM lost)) AND task.id = lost.id
       AND CASE WHEN task.status IN /* tasks_in_flight */ AND task.claimed_by_worker_id = $1
                THEN task.claimed_at = lost.claimed_at END
    RETURNING lost.id, lost.claimed_at, task.queue_name
), woken AS (
    SELECT queue_name, 'capacity:released' AS notice FROM returned
)
SELECT id, claimed_at FROM returned WHERE /* queues_notified */

-- name: in_flight_of_worker
-- claiming.take_back_unlocked; reads only ($1 worker)
SELECT id, claimed_at FROM horsies_tasks WHERE status IN /* tasks_in_flight */ AND claimed_by_worker_id = $1

-- name: next_due
-- claiming.next_due; reads only ($1 queues)
-- The earliest time is not at one end of ix_horsies_tasks_ready, in which priority comes first. So each priority in use
-- is visited, with two index probes each. A retry is due at both of its times. Only in a row of another writer may
-- next_retry_at be the later one: the next such time of all queues is read from the index alone, since with the
-- statistics of a quiet hour a condition on the queue would lead through all that waits.
WITH RECURSIVE level AS (
    SELECT queue.name, lowest.priority
      FROM unnest($1::text[]) AS queue (name)
     CROSS JOIN LATERAL (SELECT priority FROM horsies_tasks WHERE status = 'PENDING' AND queue_name = queue.name
                          ORDER BY priority LIMIT 1) lowest
     UNION ALL
    SELECT level.name, higher.priority
      FROM level
     CROSS JOIN LATERAL (SELECT priority FROM horsies_tasks WHERE status = 'PENDING' AND queue_name = level.name
                            AND priority > level.priority ORDER BY priority LIMIT 1) higher
)
SELECT date_part('epoch', min(soonest.enqueued_at)) - date_part('epoch', statement_timestamp()) AS due_in,
       date_part('epoch', (SELECT next_retry_at FROM horsies_tasks
                            WHERE status = 'PENDING' AND next_retry_at IS NOT NULL
                              AND next_retry_at > statement_timestamp()
                            ORDER BY next_retry_at LIMIT 1)) - date_part('epoch', statement_timestamp()) AS retry_in
  FROM level
 CROSS JOIN LATERAL (SELECT enqueued_at FROM horsies_tasks WHERE status = 'PENDING' AND queue_name = level.name
                        AND priority = level.priority AND enqueued_at > statement_timestamp()
                      ORDER BY enqueued_at LIMIT 1) soonest

-- name: start
-- claiming.start; the token and CLAIMED, the lease not run out, good_until not passed, its workflow not paused
-- ($1 worker, $2 tasks, $3 claimed at, $4 pids, $5 host names, $6 process names)
-- One task 0.21 ms, of which the disk takes 0.12; 10 tasks 0.30 ms; 50 tasks 0.72 ms; 200 tasks 2.1 ms.
/* starting */
RETURNING token.number

-- name: start_capped
-- claiming.start under caps that count only RUNNING tasks; as `start`, and horsies_room_to_run finds room
-- ($1 to $6 as in `start`, $7 queues of the tasks, $8 capped queues, $9 their caps)
WITH fitting AS MATERIALIZED (
    SELECT id FROM horsies_room_to_run($2::text[], $7::text[], $8::text[], $9::integer[]) AS id
), started AS (
    /* starting */
       AND task.id IN (SELECT id FROM fitting)
    RETURNING token.number
)
SELECT number, true AS fits FROM started
 UNION ALL
SELECT token.number, false
  FROM unnest($2::text[], $3::timestamptz[]) WITH ORDINALITY AS token (id, claimed_at, number)
  JOIN horsies_tasks task ON task.id = token.id
 WHERE task.id = ANY ($2) AND task.id NOT IN (SELECT id FROM fitting)
   AND CASE WHEN task.status = 'CLAIMED' AND task.claimed_by_worker_id = $1 THEN task.claimed_at = token.claimed_at END

-- name: starting
-- fragment of `start` and `start_capped`: the token and CLAIMED, the lease not run out, good_until not passed, its workflow
-- not paused
UPDATE horsies_tasks task
   SET status = 'RUNNING', claimed = false, claim_expires_at = NULL, started_at = statement_timestamp(),
       worker_pid = token.pid, worker_hostname = token.hostname, worker_process_name = token.process_name,
       finalizing_at = NULL, finalizing_by_worker_id = NULL, updated_at = statement_timestamp()
  FROM unnest($2::text[], $3::timestamptz[], $4::integer[], $5::text[], $6::text[]) WITH ORDINALITY
       AS token (id, claimed_at, pid, hostname, process_name, number)
       -- The primary key must be the only index that fits. With statistics from a quiet hour,
       -- ix_horsies_tasks_in_flight looks empty and the plan reads all that is in flight for each token (50 tasks: 4.6
       -- ms), so the status is inside a CASE, from which no predicate of an index can be proved. The array limits what
       -- is read. As the planner cannot estimate a CASE, it expects ten rows, and hashes the tokens instead of looping
       -- over them (200 tasks: 2.1 ms instead of 8.1 ms).
 WHERE task.id = ANY ($2) AND task.id = token.id
   AND CASE WHEN task.claimed_by_worker_id = $1 AND task.claimed_at = token.claimed_at
                 -- The statement may have waited for the row, and its own time would then be too early.
            THEN task.status = 'CLAIMED' AND task.claim_expires_at > clock_timestamp()
                 AND (task.good_until IS NULL OR task.good_until > clock_timestamp())
                 AND CASE WHEN task.is_workflow_task THEN NOT horsies_is_held(task.id) ELSE true END
                 -- Repeated because the reply was lost: the task belongs to this worker and user code has not been
                 -- called.
                 OR task.status = 'RUNNING' END

-- name: expire_claimed
-- claiming.start, for tasks that `start` did not change; the token and CLAIMED, good_until passed
-- ($1 worker, $2 tasks, $3 claimed at, $4 results)
UPDATE horsies_tasks task
   SET status = 'EXPIRED', claimed = false, claim_expires_at = NULL, failed_at = statement_timestamp(),
       result = token.result, error_code = 'TASK_EXPIRED', updated_at = statement_timestamp()
  FROM unnest($2::text[], $3::timestamptz[], $4::text[]) WITH ORDINALITY AS token (id, claimed_at, result, number)
 WHERE task.id = ANY ($2) AND task.id = token.id
   AND CASE WHEN task.claimed_by_worker_id = $1 AND task.claimed_at = token.claimed_at
            THEN task.status = 'CLAIMED' AND task.good_until <= clock_timestamp() END
RETURNING token.number

-- name: release_paused
-- claiming.start, for tasks that `start` did not change; the token and CLAIMED, its workflow PAUSED or resumed a moment
-- ago: the node keeps its task
-- ($1 worker, $2 tasks, $3 claimed at)
WITH released AS (
    UPDATE horsies_tasks task
       SET /* back_in_queue */, updated_at = statement_timestamp()
      FROM unnest($2::text[], $3::timestamptz[]) WITH ORDINALITY AS token (id, claimed_at, number)
     WHERE task.id = ANY ($2) AND task.id = token.id
       AND CASE WHEN task.status = 'CLAIMED' AND task.claimed_by_worker_id = $1 AND task.claimed_at = token.claimed_at
                     -- Includes workflows resumed just now: an unreleased task would wait without an owner until its lease expires.
                THEN task.is_workflow_task
                     AND (task.claim_expires_at > clock_timestamp() OR horsies_is_held(task.id)) END
    RETURNING token.number, task.queue_name
), woken AS (
    SELECT queue_name, 'capacity:released' AS notice FROM released
)
SELECT number FROM released WHERE /* queues_notified */
