-- the worker's look at its orders, every 5 s and when told; reads only ($1 worker)
SELECT draining_since, ordered_by, reason FROM horsies_worker_orders WHERE worker_id = $1
