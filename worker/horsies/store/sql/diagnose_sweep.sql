-- cluster.py; reads only ($1 the sweep)
SELECT ran_at, worker_id, interval_ms FROM horsies_sweep_state WHERE sweep = $1
