-- name: next_due
-- waiting.next_due; reads only ($1 queues)
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
