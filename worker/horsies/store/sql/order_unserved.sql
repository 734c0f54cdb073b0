-- operations/workers.py, the preview of a drain; reads only
-- ($1 the workers to be drained, $2 how old the newest snapshot of a living worker may be in s)
SELECT queue
  FROM (SELECT DISTINCT ON (worker_id) worker_id, queues
          FROM horsies_worker_states
         WHERE snapshot_at > statement_timestamp() - $2::float8 * interval '1 s'
         ORDER BY worker_id, snapshot_at DESC) alive
 CROSS JOIN LATERAL unnest(alive.queues) AS queue
  LEFT JOIN horsies_worker_orders given USING (worker_id)
 GROUP BY queue
HAVING bool_or(worker_id = ANY ($1)) AND NOT bool_or(worker_id <> ALL ($1) AND given.draining_since IS NULL)
 ORDER BY queue
