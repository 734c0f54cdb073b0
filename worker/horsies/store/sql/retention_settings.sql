-- retention.ages_in_use; reads only. What the newest snapshot of all says
SELECT worker_id, recovery_config
  FROM horsies_worker_states
 WHERE recovery_config IS NOT NULL
 ORDER BY snapshot_at DESC
 LIMIT 1
