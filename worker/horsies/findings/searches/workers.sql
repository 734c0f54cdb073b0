-- name: diagnose_memory
-- searches/workers.py; reads only: live workers near a limit, by their newest snapshots
-- ($1 how old the snapshot of a live worker may be, in s; $2 the share of a limit that is near; $3 workers at most)
-- Since the first snapshot after the last one that was not near, if that is less than an hour old. BETWEEN excludes
-- NaN.
SELECT newest.*, lately.since
       -- Upstream's tables lack these columns: a name that the table does not have is then resolved here.
  FROM (VALUES (NULL::float8, NULL::float8, NULL::float8, NULL::integer, NULL::float8))
       AS absent (container_memory_mb, container_limit_mb, largest_child_mb, largest_child_pid, child_limit_mb)
 CROSS JOIN LATERAL (
        SELECT DISTINCT ON (worker_id) worker_id, hostname, pid, processes, container_memory_mb AS used_mb,
               container_limit_mb AS limit_mb, largest_child_mb AS child_mb, largest_child_pid AS child_pid,
               child_limit_mb AS child_may_mb,
               COALESCE(container_limit_mb BETWEEN 1 AND 1e9
                        AND container_memory_mb BETWEEN $2::float8 * container_limit_mb AND 1e9, false) AS container_is_near,
               COALESCE(child_limit_mb BETWEEN 1 AND 1e9
                        AND largest_child_mb BETWEEN $2::float8 * child_limit_mb AND 1e9, false) AS child_is_near
          FROM horsies_worker_states
         WHERE snapshot_at > now() - $1::float8 * interval '1 s'
         ORDER BY worker_id, snapshot_at DESC) newest
 CROSS JOIN LATERAL (
        SELECT min(snapshot_at) AS since
          FROM (SELECT snapshot_at,
                       sum(CASE WHEN container_memory_mb BETWEEN $2::float8 * container_limit_mb AND 1e9
                                  OR largest_child_mb BETWEEN $2::float8 * child_limit_mb AND 1e9 THEN 0 ELSE 1 END)
                           OVER (ORDER BY snapshot_at DESC) AS others
                  FROM horsies_worker_states
                 WHERE worker_id = newest.worker_id AND snapshot_at > now() - interval '1 h') recent
         WHERE others = 0) lately
 WHERE newest.processes > 0 AND (newest.container_is_near OR newest.child_is_near)
 ORDER BY newest.worker_id
 LIMIT $3::integer
