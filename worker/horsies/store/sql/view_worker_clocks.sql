-- views/workers.py; reads only ($1 how old the newest snapshot of a living worker may be, in s)
-- A worker tells once by its own clock: when it started. The database dates its first snapshot, which follows at once.
-- Each worker by two probes of ix_horsies_worker_states_worker_latest. Where retention may have removed the first one,
-- nobody can tell any more.
WITH RECURSIVE known AS (
    (SELECT worker_id, snapshot_at FROM horsies_worker_states ORDER BY worker_id, snapshot_at DESC LIMIT 1)
     UNION ALL
    SELECT next.worker_id, next.snapshot_at
      FROM known
     CROSS JOIN LATERAL (SELECT worker_id, snapshot_at FROM horsies_worker_states WHERE worker_id > known.worker_id
                          ORDER BY worker_id, snapshot_at DESC LIMIT 1) next
)
SELECT known.worker_id, extract(epoch FROM first.worker_started_at - first.snapshot_at)::float8 AS ahead_s
  FROM known
 CROSS JOIN LATERAL (SELECT snapshot_at, worker_started_at FROM horsies_worker_states WHERE worker_id = known.worker_id
                      ORDER BY worker_id DESC, snapshot_at LIMIT 1) first
 WHERE known.snapshot_at >= statement_timestamp() - $1::float8 * interval '1 s'
   AND (first.worker_started_at > first.snapshot_at
        OR first.snapshot_at > (SELECT snapshot_at FROM horsies_worker_states ORDER BY snapshot_at LIMIT 1)
                               + interval '1 min')
 ORDER BY known.worker_id
