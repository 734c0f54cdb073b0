-- views/flow.py; reads only ($1 length of the time that just passed, in s; $2 of that before it; $3 failures read at most)
-- By ix_horsies_tasks_unsuccessful, newest first; `before_s` is shorter where more failed than were read.
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
