-- name: view_worker_series
-- views/series.py; reads only ($1 worker, $2 first bucket, $3 length of a bucket, $4 how many)
-- The newest snapshot in each bucket by one probe of ix_horsies_worker_states_worker_latest: one worker leaves 120 000
-- in a week, each on a page of its own.
SELECT number, own.*
  FROM generate_series(0, $4::integer - 1) AS number
       -- Upstream's tables lack this column: a name that the table does not have is then resolved here.
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

-- name: view_cluster_series
-- views/series.py; reads only
-- ($1 first bucket, $2 length of a bucket, $3 how many, $4 how long before the end of each to look, in s; $5 snapshots
-- read of each at most)
-- A process that runs many async tasks at once counts as one busy process. By ix_horsies_worker_states_snapshot_at: of
-- a bucket of 15 minutes only its last seconds, in which each worker reports. Those end at a whole ten seconds, also where
-- the bucket has not ended, so that readers at different moments find the same.
SELECT number, told.*
  FROM generate_series(0, $3::integer - 1) AS number
 CROSS JOIN LATERAL (
        SELECT LEAST($1::timestamptz + (number + 1) * $2::interval,
                     date_bin('10 s', statement_timestamp(), '2000-01-01Z')) AS until) AS bucket
 CROSS JOIN LATERAL (
        SELECT count(DISTINCT worker_id)::integer AS workers,
               sum(LEAST(tasks_running, processes))::float8 / NULLIF(sum(processes), 0) AS busy
          FROM (SELECT worker_id, tasks_running, processes
                  FROM horsies_worker_states
                 WHERE snapshot_at >= bucket.until - $4::float8 * interval '1 s' AND snapshot_at < bucket.until
                 ORDER BY snapshot_at DESC
                 LIMIT $5::integer) AS lately
       ) told
 WHERE told.workers > 0
