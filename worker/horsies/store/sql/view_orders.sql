-- views/workers.py; reads only: who is ordered to claim nothing more
SELECT worker_id, draining_since, ordered_by, reason FROM horsies_worker_orders WHERE draining_since IS NOT NULL
