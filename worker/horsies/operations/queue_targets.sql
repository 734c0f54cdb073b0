-- name: queue_state_known
-- operations/queue_targets.py; reads only ($1 how old the newest snapshot of a worker that counts may be, in s)
WITH RECURSIVE used AS (
    (SELECT queue_name FROM horsies_tasks WHERE status = 'PENDING' ORDER BY queue_name LIMIT 1)
     UNION ALL
    SELECT next.queue_name
      FROM used
     CROSS JOIN LATERAL (SELECT queue_name FROM horsies_tasks WHERE status = 'PENDING' AND queue_name > used.queue_name
                          ORDER BY queue_name LIMIT 1) next
)
SELECT queue_name FROM used
 UNION
SELECT queue_name FROM horsies_tasks WHERE status IN /* tasks_in_flight */
 UNION
SELECT queue_name FROM horsies_queue_state
 UNION
SELECT unnest(queues) FROM horsies_worker_states WHERE snapshot_at > statement_timestamp() - $1::float8 * interval '1 s'
 ORDER BY queue_name

-- name: queue_state_read
-- operations/queue_targets.py; reads only
-- ($1 queues, $2 how old the newest snapshot of a live worker may be in s, $3 up to how many waiting tasks are counted)
SELECT asked.queue, state.paused_at, state.paused_by, state.reason, waits.due, waits.later,
       in_flight.claimed, in_flight.running,
       (SELECT count(DISTINCT worker_id) FROM horsies_worker_states
         WHERE snapshot_at > statement_timestamp() - $2::float8 * interval '1 s'
           AND asked.queue = ANY (queues)) AS workers
  FROM unnest($1::text[]) WITH ORDINALITY AS asked (queue, number)
  LEFT JOIN horsies_queue_state state ON state.queue_name = asked.queue
 CROSS JOIN LATERAL (
        SELECT count(*) FILTER (WHERE enqueued_at <= statement_timestamp()) AS due,
               count(*) FILTER (WHERE enqueued_at > statement_timestamp()) AS later
          FROM (SELECT enqueued_at FROM horsies_tasks WHERE status = 'PENDING' AND queue_name = asked.queue
                 LIMIT $3) first_ones) waits
 CROSS JOIN LATERAL (
        SELECT count(*) FILTER (WHERE status = 'CLAIMED') AS claimed,
               count(*) FILTER (WHERE status = 'RUNNING') AS running
          FROM horsies_tasks WHERE status IN /* tasks_in_flight */ AND queue_name = asked.queue) in_flight
 ORDER BY asked.number
