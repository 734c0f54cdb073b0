-- views/flow.py; reads only
-- ($1 first bucket, $2 length of a bucket, $3 how many, $4 ended tasks read of each half of a bucket at most, $5 waiting
--  tasks read at most)
-- What ended lies in ix_horsies_tasks_finished. Of a half with more than $4 of them the first ones stand for all: each then
-- weighs as much as there would be if it had gone on like that.
WITH half AS (
    SELECT number / 2 AS number, $1::timestamptz + number * $2::interval / 2 AS since,
           LEAST($1::timestamptz + (number + 1) * $2::interval / 2, statement_timestamp()) AS until
      FROM generate_series(0, 2 * $3::integer - 1) AS number
), ended AS MATERIALIZED (
    SELECT half.number, lately.*,
           CASE WHEN count(*) OVER one < $4::integer THEN 1
                ELSE LEAST(extract(epoch FROM half.until - half.since)
                           / GREATEST(extract(epoch FROM max(ended_at) OVER one - half.since), 0.001), 100000) END AS weight
      FROM half
     CROSS JOIN LATERAL (
            SELECT status, COALESCE(completed_at, failed_at) AS ended_at, enqueued_at,
                   CASE WHEN started_at <= COALESCE(completed_at, failed_at) THEN started_at END AS started_at
              FROM horsies_tasks
             WHERE status IN ('COMPLETED', 'FAILED', 'CANCELLED', 'EXPIRED')
               AND COALESCE(completed_at, failed_at) >= half.since AND COALESCE(completed_at, failed_at) < half.until
             ORDER BY COALESCE(completed_at, failed_at)
             LIMIT $4::integer) AS lately
    WINDOW one AS (PARTITION BY half.since)
), flow AS (
    SELECT number,
           sum(weight) FILTER (WHERE status = 'COMPLETED') AS completed,
           sum(weight) FILTER (WHERE status = 'FAILED') AS failed,
           sum(weight) FILTER (WHERE status IN ('CANCELLED', 'EXPIRED')) AS other,
           max(weight) > 1 AS partly,
           -- Not until it is due does a task wait; of one that was tried again, since it was due for the last time.
           percentile_disc(ARRAY[0.5, 0.95]) WITHIN GROUP (
                ORDER BY GREATEST(extract(epoch FROM started_at - enqueued_at), 0)::float8) AS wait_s,
           percentile_disc(ARRAY[0.5, 0.95]) WITHIN GROUP (
                ORDER BY extract(epoch FROM ended_at - started_at)::float8) FILTER (WHERE started_at IS NOT NULL) AS run_s
      FROM ended GROUP BY number
), moves AS (
    SELECT GREATEST(floor(extract(epoch FROM moment - $1::timestamptz) / extract(epoch FROM $2::interval)), -1) AS number,
           sum(weight) AS weight
      FROM (
            SELECT enqueued_at AS moment, weight FROM ended WHERE enqueued_at < COALESCE(started_at, ended_at)
            UNION ALL
            SELECT COALESCE(started_at, ended_at), -weight FROM ended WHERE enqueued_at < COALESCE(started_at, ended_at)
            UNION ALL
            (SELECT enqueued_at, 1 FROM horsies_tasks WHERE status = 'PENDING'
              ORDER BY queue_name, priority, enqueued_at, id LIMIT $5::integer)
            UNION ALL
            SELECT enqueued_at, 1 FROM horsies_tasks WHERE status IN ('CLAIMED', 'RUNNING')
            UNION ALL
            SELECT started_at, -1 FROM horsies_tasks WHERE status = 'RUNNING' AND started_at IS NOT NULL
           ) AS move (moment, weight)
     WHERE moment <= statement_timestamp()
     GROUP BY 1
)
SELECT number, completed::float8, failed::float8, other::float8, COALESCE(partly, false) AS partly,
       wait_s[1], wait_s[2], run_s[1], run_s[2],
       GREATEST(sum(moves.weight) OVER (ORDER BY number), 0)::float8 AS waiting
  FROM generate_series(-1, $3::integer - 1) AS number
  LEFT JOIN flow USING (number)
  LEFT JOIN moves USING (number)
 ORDER BY number
