-- name: diagnose_waiting
-- searches/waiting_tasks.py; reads only
-- ($1 paused queues, $2 queues that a worker serves, $3 those whose workers all report their names, $4 and $5 queue and
-- name of all that is known there, $6 how late a retry may be in s, $7 rows of each kind)
-- Of each priority of each queue the first thousand due tasks: tasks that no worker may run stay at the front. A
-- priority at a time, because due and later tasks are separate in the index only below it.
WITH RECURSIVE /* levels */, due AS (
    SELECT waiting.*, level.queue_name::text AS queue_name
      FROM level
     CROSS JOIN LATERAL (
            SELECT first_ones.*, count(*) OVER () >= 1000 AS more
              FROM (SELECT id, task_name::text AS task_name, enqueued_at, next_retry_at, good_until
                      FROM horsies_tasks
                     WHERE status = 'PENDING' AND queue_name = level.queue_name AND priority = level.priority
                       AND enqueued_at <= now()
                     ORDER BY enqueued_at, id LIMIT 1000) first_ones) waiting
     LIMIT 20000
), judged AS MATERIALIZED (
    SELECT due.*, GREATEST(enqueued_at, next_retry_at) AS since,
           CASE WHEN queue_name = ANY ($1::text[]) THEN 'paused queue'
                WHEN queue_name <> ALL ($2::text[]) THEN 'no worker'
                     -- A subquery that is hashed once, however it is planned; a join with the arrays might loop over
                     -- them.
                WHEN queue_name = ANY ($3::text[])
                     AND (queue_name, task_name) NOT IN (
                           SELECT known.queue_name, known.name
                             FROM unnest($4::text[], $5::text[]) AS known (queue_name, name))
                     THEN 'unknown name'
                WHEN next_retry_at < now() - $6::float8 * interval '1 s' THEN 'retry overdue' END AS kind
      FROM due
     WHERE (next_retry_at IS NULL OR next_retry_at <= now()) AND (good_until IS NULL OR good_until > now())
)
SELECT kind, queue_name, CASE WHEN kind IN ('unknown name', 'retry overdue') THEN task_name END AS task_name,
       count(*) AS count, bool_or(more) OR (SELECT count(*) FROM due) >= 20000 AS more,
       min(since)::timestamptz AS since, (array_agg(id ORDER BY since, id))[:$7] AS ids
  FROM judged
 WHERE kind IS NOT NULL
 GROUP BY 1, 2, 3
 ORDER BY min(since)
 LIMIT $7

-- name: diagnose_expiring
-- searches/waiting_tasks.py; reads only ($1 rows to count, $2 ids of each name)
SELECT task_name, queue_name, count(*) AS count, min(good_until)::timestamptz AS since,
       (array_agg(id ORDER BY good_until, id))[:$2] AS ids
  FROM (SELECT id, task_name, queue_name, good_until FROM horsies_tasks
         WHERE status = 'PENDING' AND good_until <= now()
         ORDER BY good_until
         LIMIT $1) late
 GROUP BY task_name, queue_name
 ORDER BY min(good_until)
