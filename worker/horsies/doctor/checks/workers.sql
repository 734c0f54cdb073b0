-- name: doctor_last_retention
-- retention.py; reads only
SELECT worker_id, date_part('epoch', now()) - date_part('epoch', ran_at) AS ago_s FROM horsies_sweep_state WHERE sweep = 'retention'
