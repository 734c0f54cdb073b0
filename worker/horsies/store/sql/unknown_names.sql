-- run/strangers.py, half a second after something was enqueued; reads only ($1 queues, $2 the names it knows)
-- The first thousand due ones of each queue: what waits behind them is looked at when its turn comes nearer.
SELECT task_name, count(*) AS waiting
  FROM unnest($1::text[]) AS queue (name)
 CROSS JOIN LATERAL (SELECT task_name
                       FROM horsies_tasks
                      WHERE status = 'PENDING' AND queue_name = queue.name AND enqueued_at <= statement_timestamp()
                      ORDER BY priority, enqueued_at, id
                      LIMIT 1000) AS first_ones
 WHERE task_name <> ALL ($2)
 GROUP BY task_name
 ORDER BY task_name
