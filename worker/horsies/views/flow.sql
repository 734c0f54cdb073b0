-- name: view_horizon
-- views/flow.py; reads only: since when there is data, by one probe of an index each
SELECT LEAST((SELECT finished_at::timestamptz FROM horsies_task_attempts ORDER BY finished_at LIMIT 1), COALESCE(
    (SELECT COALESCE(completed_at, failed_at) FROM horsies_tasks
      WHERE status IN /* ended_tasks */
        AND COALESCE(completed_at, failed_at) >= '-infinity'
      ORDER BY COALESCE(completed_at, failed_at) LIMIT 1),
    (SELECT created_at FROM horsies_tasks ORDER BY created_at, id LIMIT 1))::timestamptz) AS since,
    statement_timestamp() AS now

-- name: view_task_series
-- views/flow.py; reads only
-- ($1 first bucket, $2 length of a bucket, $3 how many, $4 rows read of each slice at most, $5 waiting tasks read at
-- most, $6 slices of a bucket, $7 attempts counted of each at most)
-- Attempts never change, so their counts and times are the same at each read. Tasks only add ends without a run, and
-- slices without attempts, which older versions left. In a slice with more than $4 rows the first rows represent all: each
-- is weighted as if the other rows of the slice were like them.
WITH slice AS (
    SELECT number / $6::integer AS number, $1::timestamptz + number * $2::interval / $6::integer AS since,
           LEAST($1::timestamptz + (number + 1) * $2::interval / $6::integer, statement_timestamp()) AS until
      FROM generate_series(0, $6::integer * $3::integer - 1) AS number
), sample AS MATERIALIZED (
    SELECT slice.number, slice.since, slice.until, lately.*
      FROM slice
           -- Upstream's table lacks this column: there it is this one.
     CROSS JOIN (VALUES (NULL::integer)) AS absent (waited_ms)
     CROSS JOIN LATERAL (
            SELECT outcome, /* failed_attempt */ AS failed, finished_at AS ended_at, waited_ms / 1000.0::float8 AS wait_s,
                   CASE WHEN started_at <= finished_at THEN started_at END AS started_at
              FROM horsies_task_attempts
             WHERE finished_at >= slice.since AND finished_at < slice.until
             ORDER BY finished_at
             LIMIT $4::integer) AS lately
), weights AS (
    -- A full slice is counted completely, in the index alone: batches end in the same microsecond, so the first rows of
    -- a slice do not represent the others.
    SELECT part.since, /* slice_weight */ AS weight
      FROM (SELECT since, until, count(*) AS rows, max(ended_at) AS last FROM sample GROUP BY since, until) part
     CROSS JOIN LATERAL (
            SELECT count(*) AS rows, max(at) AS last
              FROM (SELECT finished_at AS at FROM horsies_task_attempts
                     WHERE part.rows >= $4::integer AND finished_at >= part.since AND finished_at < part.until
                     ORDER BY finished_at LIMIT $7::integer) AS each) AS counted
), tried AS MATERIALIZED (
    SELECT sample.*, weight FROM sample JOIN weights USING (since)
), finished AS MATERIALIZED (
    SELECT slice.number, slice.since, slice.until, lately.*
      FROM slice
     CROSS JOIN LATERAL (
            SELECT status, error_code, COALESCE(completed_at, failed_at) AS ended_at, enqueued_at,
                   CASE WHEN started_at <= COALESCE(completed_at, failed_at) THEN started_at END AS started_at
              FROM horsies_tasks
             WHERE status IN /* ended_tasks */
               AND COALESCE(completed_at, failed_at) >= slice.since AND COALESCE(completed_at, failed_at) < slice.until
             ORDER BY COALESCE(completed_at, failed_at)
             LIMIT $4::integer) AS lately
), finished_weights AS (
    -- Ends are counted only in slices without attempts.
    SELECT part.since, /* slice_weight */ AS weight
      FROM (SELECT since, until, count(*) AS rows, max(ended_at) AS last FROM finished GROUP BY since, until) part
      LEFT JOIN (SELECT DISTINCT since, true AS yes FROM sample) has USING (since)
     CROSS JOIN LATERAL (
            SELECT count(*) AS rows, max(at) AS last
              FROM (SELECT COALESCE(completed_at, failed_at) AS at FROM horsies_tasks
                     WHERE part.rows >= $4::integer AND has.yes IS NULL
                       AND status IN /* ended_tasks */
                       AND COALESCE(completed_at, failed_at) >= part.since AND COALESCE(completed_at, failed_at) < part.until
                     ORDER BY COALESCE(completed_at, failed_at) LIMIT $7::integer) AS each) AS counted
), ended AS MATERIALIZED (
    SELECT finished.*, weight FROM finished JOIN finished_weights USING (since)
), outcome AS (
    SELECT number, weight, outcome = 'COMPLETED' AS completed, failed, false AS other, started_at, ended_at, wait_s
      FROM tried WHERE failed OR outcome = 'COMPLETED'
     UNION ALL
    SELECT number, weight, status = 'COMPLETED', status = 'FAILED' AND NOT by_hand, status IN ('CANCELLED', 'EXPIRED') OR by_hand,
           started_at, ended_at,
           -- A task waits only from when it is due; after a retry, from when it was due last. A task that never began has
           -- no wait: GREATEST would make it 0 s.
           CASE WHEN started_at IS NOT NULL AND has.yes IS NULL
                THEN GREATEST(extract(epoch FROM started_at) - extract(epoch FROM enqueued_at), 0)::float8 END
      FROM ended
      LEFT JOIN (SELECT DISTINCT since, true AS yes FROM tried) has USING (since)
     CROSS JOIN LATERAL (SELECT status = 'FAILED' AND COALESCE(error_code, '') = 'OPERATOR_FAILED' AS by_hand) ends
     WHERE status IN ('CANCELLED', 'EXPIRED') OR by_hand OR has.yes IS NULL
), done AS (
    SELECT number,
           -- Rounded, because the order of a sum changes its last digits.
           round(COALESCE(sum(weight) FILTER (WHERE completed), 0)::numeric, 3) AS completed,
           round(COALESCE(sum(weight) FILTER (WHERE failed), 0)::numeric, 3) AS failed,
           round(COALESCE(sum(weight) FILTER (WHERE other), 0)::numeric, 3) AS other,
           max(weight) > 1 AS partly,
           percentile_disc(ARRAY[0.5, 0.95]) WITHIN GROUP (
                ORDER BY (extract(epoch FROM ended_at) - extract(epoch FROM started_at))::float8) FILTER (WHERE started_at IS NOT NULL) AS run_s,
           percentile_disc(ARRAY[0.5, 0.95]) WITHIN GROUP (ORDER BY wait_s) AS wait_s
      FROM outcome GROUP BY number
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
            SELECT enqueued_at, 1 FROM horsies_tasks WHERE status IN /* tasks_in_flight */
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
  LEFT JOIN done USING (number)
  LEFT JOIN moves USING (number)
 ORDER BY number

-- name: view_queue_samples
-- views/flow.py; reads only: how many tasks waited at the last sample of each bucket ($1 first bucket, $2 length of a
-- bucket, $3 how many)
SELECT number, own.waiting
  FROM generate_series(0, $3::integer - 1) AS number
 CROSS JOIN LATERAL (
        SELECT waiting FROM horsies_queue_samples
         WHERE queue_name = '' AND sampled_at >= $1::timestamptz + number * $2::interval
           AND sampled_at < $1::timestamptz + (number + 1) * $2::interval
         ORDER BY sampled_at DESC
         LIMIT 1) own

-- name: view_growth
-- views/flow.py; reads only: since when more tasks wait in these queues than at any time of the last hour before, by the
-- newest of the samples with the fewest ($1 queues)
SELECT wanted.name, fewest.sampled_at
  FROM unnest($1::text[]) AS wanted (name)
 CROSS JOIN LATERAL (
        SELECT sampled_at FROM horsies_queue_samples every
         WHERE queue_name = '' AND sampled_at > statement_timestamp() - interval '1 h' AND sampled_at <= statement_timestamp()
         ORDER BY COALESCE((SELECT waiting FROM horsies_queue_samples
                             WHERE sampled_at = every.sampled_at AND queue_name = wanted.name), 0), sampled_at DESC
         LIMIT 1) fewest

-- name: slice_weight
-- fragment of `view_task_series`: how many rows each row that was read stands for, in a `part` of which `counted` are
-- known
CASE WHEN part.rows < $4::integer THEN 1
     WHEN counted.rows BETWEEN 1 AND $7::integer - 1 THEN counted.rows::float8 / part.rows
     ELSE GREATEST((date_part('epoch', part.until) - date_part('epoch', part.since))
                   * COALESCE(NULLIF(counted.rows, 0), part.rows) / part.rows
                   / GREATEST(date_part('epoch', COALESCE(counted.last, part.last)) - date_part('epoch', part.since), 0.001),
                   1) END

-- name: view_queue_rates
-- views/flow.py; reads only
-- ($1 how long ago at most, in s; $2 ended tasks and attempts read at most; $3 and $4 shorter times, in s; $5 waiting
-- tasks read at most, from ix_horsies_tasks_ready alone, an equal share for each level)
-- Arrivals are tasks that became due, by enqueued_at: sent, retried, requeued. Departures are ends, and attempts that
-- are retried. If there are more than are read, only the newest count, over a shorter time.
WITH RECURSIVE /* levels */, share AS (
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
     WHERE status IN /* ended_tasks */
       AND COALESCE(completed_at, failed_at) > statement_timestamp() - $1::float8 * interval '1 s'
       AND COALESCE(completed_at, failed_at) <= statement_timestamp()
     ORDER BY COALESCE(completed_at, failed_at) DESC LIMIT $2::integer
), attempts AS MATERIALIZED (
    SELECT task_id, attempt, will_retry, finished_at FROM horsies_task_attempts
     WHERE finished_at > statement_timestamp() - $1::float8 * interval '1 s' AND finished_at <= statement_timestamp()
     ORDER BY finished_at DESC LIMIT $2::integer
), retried AS MATERIALIZED (
    -- The row of its task has the time of its next arrival; this is the best estimate of the earlier one.
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
    SELECT queue_name, enqueued_at, 1, NULL FROM horsies_tasks WHERE status IN /* tasks_in_flight */
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
-- ($1 length of the time that just passed, in s; $2 of that before it; $3 failed tasks read at most; $4 of the first;
-- a part at its end, in s; $5 slices of either, $6 and $7 attempts read of a slice at most)
-- Failed tasks by ix_horsies_tasks_unsuccessful, newest first; `before_s` is shorter if more failed than were read.
-- Failed attempts, retried or not, by their time: their index has the completed ones as well, so that among many only
-- the first ones of each slice are read, and weighted. Few failures are not weighted: one of ten thousand is no surge.
WITH final AS MATERIALIZED (
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
      FROM final
), slice AS (
    SELECT $6::integer AS most, statement_timestamp() - $1::float8 * interval '1 s' * number / $5::integer AS since,
           statement_timestamp() - $1::float8 * interval '1 s' * (number - 1) / $5::integer AS until
      FROM generate_series(1, $5::integer) AS number
     UNION ALL
    SELECT $7::integer, statement_timestamp() - ($1::float8 + $2::float8 * number / $5::integer) * interval '1 s',
           statement_timestamp() - ($1::float8 + $2::float8 * (number - 1) / $5::integer) * interval '1 s'
      FROM generate_series(1, $5::integer) AS number
), tried AS MATERIALIZED (
    SELECT read.*,
           CASE WHEN count(*) OVER one < most THEN 1
                ELSE GREATEST(extract(epoch FROM until - since)
                              / GREATEST(extract(epoch FROM max(at) OVER one - since), 0.001), 1) END AS weight
      FROM slice
     CROSS JOIN LATERAL (
            SELECT /* failed_attempt */ AS failed, will_retry, COALESCE(error_code, '') AS error_code, finished_at AS at
              FROM horsies_task_attempts
             WHERE finished_at > slice.since AND finished_at <= slice.until
             ORDER BY finished_at LIMIT slice.most) read
    WINDOW one AS (PARTITION BY since)
), counted AS (
    SELECT error_code, false AS is_attempt, false AS will_retry, at, 1 AS weight FROM final
     WHERE error_code <> 'OPERATOR_FAILED'
     UNION ALL
    SELECT error_code, true, will_retry, at, weight FROM tried WHERE failed
), sums AS (
    SELECT error_code, part.number, min(at) AS since,
           count(*) FILTER (WHERE NOT is_attempt) AS ended,
           count(*) FILTER (WHERE is_attempt) AS tried, sum(weight) FILTER (WHERE is_attempt) AS tries,
           count(*) FILTER (WHERE will_retry) AS retried, sum(weight) FILTER (WHERE will_retry) AS retries
      FROM counted
     CROSS JOIN LATERAL (
            SELECT 1 AS number WHERE at > statement_timestamp() - $1::float8 * interval '1 s'
             UNION ALL SELECT 2 WHERE at <= statement_timestamp() - $1::float8 * interval '1 s'
             UNION ALL SELECT 3 WHERE at > statement_timestamp() - $4::float8 * interval '1 s') part
     GROUP BY error_code, part.number
), found AS (
    -- A failed task that was requeued is no longer among the failed tasks, but its attempts are.
    SELECT error_code, number, since, again::integer AS again,
           GREATEST(ended + again, CASE WHEN tried < 10 THEN tried ELSE round(tries) END)::integer AS failed
      FROM sums
     CROSS JOIN LATERAL (SELECT CASE WHEN retried < 10 THEN retried ELSE round(retries) END AS again) weighted
)
SELECT error_code, COALESCE(max(failed) FILTER (WHERE number = 1), 0) AS lately,
       COALESCE(max(failed) FILTER (WHERE number = 2), 0) AS before, max(before_s) AS before_s,
       COALESCE(max(failed) FILTER (WHERE number = 3), 0) AS recent,
       COALESCE(max(again) FILTER (WHERE number = 1), 0) AS retried,
       (min(since) FILTER (WHERE number = 1))::timestamptz AS since
  FROM found CROSS JOIN reach
 GROUP BY error_code
 ORDER BY lately DESC, error_code
