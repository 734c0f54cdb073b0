-- views/flow.py; reads only ($1 how long ago at most, in s; $2 tasks read at most, of each kind)
-- What was sent and is due, and what ended, by queue; where more than $2 did, only the newest, over a shorter time.
WITH sent AS (
    SELECT queue_name, created_at AS at FROM horsies_tasks
     WHERE created_at > statement_timestamp() - $1::float8 * interval '1 s' AND created_at <= statement_timestamp()
     ORDER BY created_at DESC, id DESC LIMIT $2::integer
), ended AS (
    SELECT queue_name, COALESCE(completed_at, failed_at) AS at FROM horsies_tasks
     WHERE status IN ('COMPLETED', 'FAILED', 'CANCELLED', 'EXPIRED')
       AND COALESCE(completed_at, failed_at) > statement_timestamp() - $1::float8 * interval '1 s'
       AND COALESCE(completed_at, failed_at) <= statement_timestamp()
     ORDER BY COALESCE(completed_at, failed_at) DESC LIMIT $2::integer
), moves AS (
    SELECT queue_name, count(*) AS sent, 0 AS ended FROM sent GROUP BY queue_name
     UNION ALL
    SELECT queue_name, 0, count(*) FROM ended GROUP BY queue_name
), age AS (
    -- A table that was empty a minute ago has no rates of five.
    SELECT LEAST($1::float8, GREATEST(extract(epoch FROM statement_timestamp() - (
               SELECT created_at FROM horsies_tasks ORDER BY created_at, id LIMIT 1)), 1)) AS over_s
), reach AS (
    SELECT (SELECT CASE WHEN count(*) < $2::integer THEN (SELECT over_s FROM age)
                        ELSE GREATEST(extract(epoch FROM statement_timestamp() - min(at)), 0.1) END FROM sent) AS sent_s,
           (SELECT CASE WHEN count(*) < $2::integer THEN (SELECT over_s FROM age)
                        ELSE GREATEST(extract(epoch FROM statement_timestamp() - min(at)), 0.1) END FROM ended) AS ended_s
)
SELECT queue_name, (sum(sent) / max(sent_s))::float8 AS in_per_s, (sum(ended) / max(ended_s))::float8 AS out_per_s
  FROM moves CROSS JOIN reach
 GROUP BY queue_name
