-- name: doctor_last_retention
-- retention.py; reads only
SELECT worker_id, extract(epoch FROM now() - ran_at)::float8 AS ago_s FROM horsies_sweep_state WHERE sweep = 'retention'
