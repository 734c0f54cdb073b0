-- name: order_prune
-- run/worker/orders.py, once an hour; a day old, and of a worker without a snapshot for a day
-- A worker that is started again has a new id: its old orders apply to no worker.
DELETE FROM horsies_worker_orders given
 WHERE updated_at < statement_timestamp() - interval '1 day'
   AND NOT EXISTS (SELECT FROM horsies_worker_states
                    WHERE worker_id = given.worker_id AND snapshot_at > statement_timestamp() - interval '1 day')

-- name: order_read
-- run/worker/orders.py, every 5 s and after a notification; reads only ($1 worker)
SELECT draining_since, ordered_by, reason FROM horsies_worker_orders WHERE worker_id = $1
