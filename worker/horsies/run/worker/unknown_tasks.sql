-- name: unknown_names
-- run/worker/unknown_tasks.py, half a second after a task was enqueued; reads only ($1 queues, $2 the names it knows)
-- The names that wait in each queue, by one index probe each, however many tasks stand before them. Only due tasks
-- among the first thousand of a name are counted.
WITH RECURSIVE waiting (queue, name) AS (
    SELECT queue.name, lowest.task_name
      FROM unnest($1::text[]) AS queue (name)
     CROSS JOIN LATERAL (
           SELECT min(task_name) AS task_name
             FROM ((SELECT task_name FROM horsies_tasks
                     WHERE CASE WHEN status = 'PENDING' THEN good_until IS NULL AND workflow_paused_at IS NULL END
                       AND queue_name = queue.name ORDER BY task_name LIMIT 1)
                    UNION ALL
                   (SELECT task_name FROM horsies_tasks
                     WHERE CASE WHEN status = 'PENDING' THEN good_until IS NOT NULL AND workflow_paused_at IS NULL END
                       AND queue_name = queue.name ORDER BY task_name LIMIT 1)) either) lowest
     WHERE lowest.task_name IS NOT NULL
     UNION ALL
    SELECT waiting.queue, next.task_name
      FROM waiting
     CROSS JOIN LATERAL (
           SELECT min(task_name) AS task_name
             FROM ((SELECT task_name FROM horsies_tasks
                     WHERE CASE WHEN status = 'PENDING' THEN good_until IS NULL AND workflow_paused_at IS NULL END
                       AND queue_name = waiting.queue AND task_name > waiting.name ORDER BY task_name LIMIT 1)
                    UNION ALL
                   (SELECT task_name FROM horsies_tasks
                     WHERE CASE WHEN status = 'PENDING' THEN good_until IS NOT NULL AND workflow_paused_at IS NULL END
                       AND queue_name = waiting.queue AND task_name > waiting.name ORDER BY task_name LIMIT 1)) either) next
     WHERE next.task_name IS NOT NULL
)
SELECT waiting.name AS task_name, sum(due.tasks)::bigint AS waiting
  FROM waiting
 CROSS JOIN LATERAL (
       SELECT count(*) FILTER (WHERE first.due <= statement_timestamp()) AS tasks
         FROM ((SELECT GREATEST(enqueued_at, next_retry_at) AS due FROM horsies_tasks
                 WHERE CASE WHEN status = 'PENDING' THEN good_until IS NULL AND workflow_paused_at IS NULL END
                   AND queue_name = waiting.queue AND task_name = waiting.name
                 ORDER BY priority, GREATEST(enqueued_at, next_retry_at), id LIMIT 1000)
                UNION ALL
               (SELECT GREATEST(enqueued_at, next_retry_at) FROM horsies_tasks
                 WHERE CASE WHEN status = 'PENDING' THEN good_until IS NOT NULL AND workflow_paused_at IS NULL END
                   AND queue_name = waiting.queue AND task_name = waiting.name
                 ORDER BY priority, GREATEST(enqueued_at, next_retry_at), id LIMIT 1000)) first) due
 WHERE waiting.name <> ALL ($2) AND due.tasks > 0
 GROUP BY waiting.name
 ORDER BY waiting.name
