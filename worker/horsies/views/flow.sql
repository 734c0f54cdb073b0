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
-- views/flow.py; reads only
-- ($1 how long ago at most, in s; $2 ended tasks and attempts read at most; $3 and $4 shorter times, in s; $5 waiting
-- tasks read at most, from ix_horsies_tasks_ready alone, an equal share for each level)
-- Arrivals are tasks that became due, by enqueued_at: sent, retried, requeued. Departures are ends, and attempts that
-- are retried. If there are more than are read, only the newest count, over a shorter time.
WITH RECURSIVE level AS (
    (SELECT queue_name, priority FROM horsies_tasks
      WHERE status = 'PENDING' ORDER BY queue_name, priority, enqueued_at LIMIT 1)
     UNION ALL
    SELECT next.queue_name, next.priority
      FROM level
     CROSS JOIN LATERAL (SELECT queue_name, priority FROM horsies_tasks
                          WHERE status = 'PENDING' AND (queue_name, priority) > (level.queue_name, level.priority)
                          ORDER BY queue_name, priority, enqueued_at LIMIT 1) next
), share AS (
    SELECT $5::integer / GREATEST(count(*), 1) + 1 AS most FROM level
), waits AS MATERIALIZED (
    SELECT level.queue_name, level.priority, lately.enqueued_at
      FROM level
     CROSS JOIN LATERAL (
            SELECT enqueued_at FROM horsies_tasks
             WHERE status = 'PENDING' AND queue_name = level.queue_name AND priority = level.priority
               AND enqueued_at > statement_timestamp() - $1::float8 * interval '1 s'
               AND enqueued_at <= statement_timestamp()
             ORDER BY queue_name, priority, enqueued_at DESC LIMIT (SELECT most FROM share)) lately
), ended AS MATERIALIZED (
    SELECT queue_name, COALESCE(completed_at, failed_at) AS at, enqueued_at FROM horsies_tasks
     WHERE status IN ('COMPLETED', 'FAILED', 'CANCELLED', 'EXPIRED')
       AND COALESCE(completed_at, failed_at) > statement_timestamp() - $1::float8 * interval '1 s'
       AND COALESCE(completed_at, failed_at) <= statement_timestamp()
     ORDER BY COALESCE(completed_at, failed_at) DESC LIMIT $2::integer
), attempts AS MATERIALIZED (
    SELECT task_id, attempt, will_retry, finished_at FROM horsies_task_attempts
     WHERE finished_at > statement_timestamp() - $1::float8 * interval '1 s' AND finished_at <= statement_timestamp()
     ORDER BY finished_at DESC LIMIT $2::integer
), retried AS MATERIALIZED (
    -- The row of its task has the time of its next arrival; the earlier one is not known better than by this.
    SELECT task.queue_name, attempts.finished_at AS at, COALESCE(before.finished_at, task.created_at) AS enqueued_at
      FROM attempts
     CROSS JOIN LATERAL (SELECT queue_name, created_at FROM horsies_tasks WHERE id = attempts.task_id LIMIT 1) task
      LEFT JOIN LATERAL (
            SELECT finished_at FROM horsies_task_attempts
             WHERE task_id = attempts.task_id AND attempt < attempts.attempt ORDER BY attempt DESC LIMIT 1) before ON true
     WHERE attempts.will_retry
), reach AS (
    -- A table that was empty a minute ago has no rates over five minutes.
    SELECT GREATEST(statement_timestamp() - $1::float8 * interval '1 s',
                    LEAST((SELECT created_at FROM horsies_tasks ORDER BY created_at, id LIMIT 1)::timestamptz,
                          statement_timestamp() - interval '1 s'),
                    (SELECT max(first_at) FROM (SELECT min(enqueued_at)::timestamptz AS first_at FROM waits
                                                 GROUP BY queue_name, priority
                                                HAVING count(*) >= (SELECT most FROM share)) full_ones),
                    (SELECT min(at)::timestamptz FROM ended HAVING count(*) >= $2::integer),
                    (SELECT min(finished_at)::timestamptz FROM attempts HAVING count(*) >= $2::integer)) AS since
), span AS (
    SELECT ARRAY(SELECT GREATEST(since, statement_timestamp() - seconds * interval '1 s')
                   FROM reach CROSS JOIN unnest(ARRAY[$1::float8, $3::float8, $4::float8]) WITH ORDINALITY AS wanted (seconds, number)
                  ORDER BY number) AS since
), moves AS (
    SELECT queue_name, enqueued_at::timestamptz AS at, 1 AS arrives, NULL::integer AS leaves FROM waits
     UNION ALL
    SELECT queue_name, enqueued_at, 1, NULL FROM horsies_tasks WHERE status IN ('CLAIMED', 'RUNNING')
     UNION ALL
    SELECT queue_name, enqueued_at, 1, NULL FROM ended
     UNION ALL
    SELECT queue_name, enqueued_at, 1, NULL FROM retried
     UNION ALL
    SELECT queue_name, at, NULL, 1 FROM ended
     UNION ALL
    SELECT queue_name, at, NULL, 1 FROM retried
)
SELECT queue_name,
       ARRAY[count(arrives), count(arrives) FILTER (WHERE at > since[2]), count(arrives) FILTER (WHERE at > since[3])] AS arrived,
       ARRAY[count(leaves), count(leaves) FILTER (WHERE at > since[2]), count(leaves) FILTER (WHERE at > since[3])] AS left,
       ARRAY(SELECT GREATEST(date_part('epoch', statement_timestamp()) - date_part('epoch', each), 0.1)
               FROM unnest(max(since)) AS each) AS over_s
  FROM moves CROSS JOIN span
 WHERE at > since[1] AND at <= statement_timestamp()
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
