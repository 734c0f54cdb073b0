-- claiming.take_back_unlocked; reads only ($1 worker)
SELECT id, claimed_at FROM horsies_tasks WHERE status IN ('CLAIMED', 'RUNNING') AND claimed_by_worker_id = $1
