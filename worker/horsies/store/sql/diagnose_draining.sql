-- cluster.py; reads only
SELECT worker_id FROM horsies_worker_orders WHERE draining_since IS NOT NULL
