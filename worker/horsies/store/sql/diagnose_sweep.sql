-- cluster.py; reads only ($1 rules)
-- A duty is named by its rule, and by the threshold where it has one; see sweep_state.py.
SELECT split_part(sweep, ' ', 1) AS rule, NULLIF(split_part(sweep, ' ', 2), '')::integer AS threshold_ms, ran_at, worker_id,
       interval_ms
  FROM horsies_sweep_state
 WHERE split_part(sweep, ' ', 1) = ANY ($1::text[])
 ORDER BY sweep
