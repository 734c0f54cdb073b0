-- name: view_horizon
-- views/flow.py; reads only: since when there is data, by one probe of an index each
SELECT COALESCE(
    (SELECT COALESCE(completed_at, failed_at) FROM horsies_tasks
      WHERE status IN ('COMPLETED', 'FAILED', 'CANCELLED', 'EXPIRED')
        AND COALESCE(completed_at, failed_at) >= '-infinity'
      ORDER BY COALESCE(completed_at, failed_at) LIMIT 1),
    (SELECT created_at FROM horsies_tasks ORDER BY created_at, id LIMIT 1)) AS since,
    statement_timestamp() AS now

-- name: view_task_series
-- views/flow.py; reads only
-- ($1 first bucket, $2 length of a bucket, $3 how many, $4 ended tasks read of each half of a bucket at most, $5
-- waiting tasks read at most)
-- Ended tasks are in ix_horsies_tasks_finished. In a half with more than $4 of them the first ones stand for all: each
-- is weighted as if the rest of the half were like them.
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
           -- A task waits only from when it is due; after a retry, from when it was due last. One that never began has
           -- no such wait: GREATEST would make it one of 0 s.
           percentile_disc(ARRAY[0.5, 0.95]) WITHIN GROUP (
                ORDER BY GREATEST(extract(epoch FROM started_at) - extract(epoch FROM enqueued_at), 0)::float8)
                FILTER (WHERE started_at IS NOT NULL) AS wait_s,
           percentile_disc(ARRAY[0.5, 0.95]) WITHIN GROUP (
                ORDER BY (extract(epoch FROM ended_at) - extract(epoch FROM started_at))::float8) FILTER (WHERE started_at IS NOT NULL) AS run_s
      FROM ended GROUP BY number
), moves AS (
    SELECT GREATEST(floor((date_part('epoch', moment) - date_part('epoch', $1::timestamptz)) / date_part('epoch', $2::interval)),
                    -1) AS number,
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

-- name: view_queue_rates
-- views/flow.py; reads only ($1 how long ago at most, in s; $2 tasks read at most, of each kind)
-- Tasks that were sent and are due, and tasks that ended, by queue; if more than $2 did, only the newest, over a
-- shorter time.
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
    -- A table that was empty a minute ago has no rates over five minutes.
    SELECT LEAST($1::float8, GREATEST(date_part('epoch', statement_timestamp()) - date_part('epoch', (
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

-- name: view_failures
-- views/flow.py; reads only
-- ($1 length of the time that just passed, in s; $2 of that before it; $3 failures read at most)
-- By ix_horsies_tasks_unsuccessful, newest first; `before_s` is shorter if more failed than were read.
WITH failed AS MATERIALIZED (
    SELECT COALESCE(error_code, '') AS error_code, COALESCE(completed_at, failed_at) AS at
      FROM horsies_tasks
     WHERE status = 'FAILED'
       AND COALESCE(completed_at, failed_at) > statement_timestamp() - ($1::float8 + $2::float8) * interval '1 s'
       AND COALESCE(completed_at, failed_at) <= statement_timestamp()
     ORDER BY COALESCE(completed_at, failed_at) DESC
     LIMIT $3::integer
), reach AS (
    SELECT CASE WHEN count(*) < $3::integer THEN $2::float8
                ELSE GREATEST(extract(epoch FROM statement_timestamp() - min(at)) - $1::float8, 0) END AS before_s
      FROM failed
)
SELECT error_code,
       count(*) FILTER (WHERE at > statement_timestamp() - $1::float8 * interval '1 s') AS lately,
       count(*) FILTER (WHERE at <= statement_timestamp() - $1::float8 * interval '1 s') AS before,
       max(before_s) AS before_s
  FROM failed CROSS JOIN reach
 GROUP BY error_code
 ORDER BY lately DESC, error_code
