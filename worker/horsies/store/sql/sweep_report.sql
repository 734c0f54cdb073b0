-- sweep_state.write_report; still this worker's duty ($1 sweep, $2 worker, $3 report)
UPDATE horsies_sweep_state SET report = $3::jsonb WHERE sweep = $1 AND worker_id = $2
