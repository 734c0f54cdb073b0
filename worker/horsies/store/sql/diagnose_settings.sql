-- cluster.py; reads only. What the newest snapshot of all says
SELECT worker_id, recovery_config FROM horsies_worker_states ORDER BY snapshot_at DESC LIMIT 1
