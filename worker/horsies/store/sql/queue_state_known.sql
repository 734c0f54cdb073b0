-- operations/queues.py; reads only ($1 how long ago a worker that counts may have told of itself, in s)
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
SELECT queue_name FROM horsies_tasks WHERE status IN ('CLAIMED', 'RUNNING')
 UNION
SELECT queue_name FROM horsies_queue_state
 UNION
SELECT unnest(queues) FROM horsies_worker_states WHERE snapshot_at > statement_timestamp() - $1::float8 * interval '1 s'
 ORDER BY queue_name
