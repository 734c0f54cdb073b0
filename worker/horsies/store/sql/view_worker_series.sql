-- views/series.py; reads only ($1 worker, $2 first bucket, $3 length of a bucket, $4 how many)
-- The newest snapshot in each bucket by one probe of ix_horsies_worker_states_worker_latest: one worker leaves 120 000 in
-- a week, each on a page of its own.
SELECT number, own.*
  FROM generate_series(0, $4::integer - 1) AS number
       -- Tables made by upstream lack this column: a name that the table has not is then found here.
 CROSS JOIN (VALUES (NULL::float8)) AS absent (children_memory_mb)
 CROSS JOIN LATERAL (
        SELECT snapshot_at, tasks_running, tasks_claimed, processes, memory_usage_mb, children_memory_mb, memory_percent,
               cpu_percent
          FROM horsies_worker_states
         WHERE worker_id = $1
           AND snapshot_at >= $2::timestamptz + number * $3::interval
           AND snapshot_at < $2::timestamptz + (number + 1) * $3::interval
         ORDER BY worker_id, snapshot_at DESC
         LIMIT 1) own
