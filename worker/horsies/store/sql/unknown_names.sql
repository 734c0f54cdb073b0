-- the worker's look at what it cannot run, once a minute while it is idle; reads only
-- ($1 queues, $2 the names it knows) Bounded: the first thousand that wait.
SELECT task_name, count(*) AS waiting
  FROM (SELECT task_name
          FROM horsies_tasks
         WHERE status = 'PENDING' AND queue_name = ANY ($1) AND enqueued_at <= statement_timestamp()
         LIMIT 1000) AS first_ones
 WHERE task_name <> ALL ($2)
 GROUP BY task_name
 ORDER BY task_name
