-- views/queues.py; reads only ($1 how old the newest snapshot of a living worker may be, in s): who serves which queues
SELECT DISTINCT ON (worker_id) worker_id, queues::text[], queue_priorities, queue_max_concurrency, snapshot_at
  FROM horsies_worker_states
 WHERE snapshot_at > statement_timestamp() - $1::float8 * interval '1 s'
 ORDER BY worker_id, snapshot_at DESC
