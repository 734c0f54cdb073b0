-- operations/workers.py, for ids that were not given whole; reads only
-- Each worker id of the snapshots by one probe of ix_horsies_worker_states_worker_latest, and whoever holds a task.
WITH RECURSIVE told AS (
    (SELECT worker_id FROM horsies_worker_states ORDER BY worker_id LIMIT 1)
     UNION ALL
    SELECT next.worker_id
      FROM told
     CROSS JOIN LATERAL (SELECT worker_id FROM horsies_worker_states WHERE worker_id > told.worker_id
                          ORDER BY worker_id LIMIT 1) next
)
SELECT worker_id FROM told
 UNION
SELECT claimed_by_worker_id FROM horsies_tasks
 WHERE status IN ('CLAIMED', 'RUNNING') AND claimed_by_worker_id IS NOT NULL
 ORDER BY worker_id
