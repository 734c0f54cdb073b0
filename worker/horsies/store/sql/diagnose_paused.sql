-- cluster.py; reads only
SELECT queue_name, paused_at, paused_by, reason FROM horsies_queue_state WHERE paused_at IS NOT NULL
