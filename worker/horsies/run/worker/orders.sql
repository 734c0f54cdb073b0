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

-- name: looks_asked
-- run/worker/orders.py, after a notification, and polled; reads only ($1 worker)
-- Not those of a minute ago: who asked has gone.
SELECT look_id, task_id, claimed_at, kind, with_locals, after_line, asked_at
  FROM horsies_looks
 WHERE worker_id = $1 AND answered_at IS NULL AND asked_at > statement_timestamp() - interval '1 min'
 ORDER BY asked_at
 LIMIT 20

-- name: looks_answer
-- run/worker/orders.py; asked at that time and not since ($1 looks, $2 asked at, $3 answers)
UPDATE horsies_looks look
   SET answered_at = statement_timestamp(), answer = given.answer
  FROM unnest($1::uuid[], $2::timestamptz[], $3::jsonb[]) AS given (look_id, asked_at, answer)
 WHERE look.look_id = given.look_id AND look.asked_at = given.asked_at AND look.answered_at IS NULL

-- name: looks_prune
-- run/worker/orders.py, once an hour; an hour old: the command or console that asked has ended without closing it
DELETE FROM horsies_looks WHERE asked_at < statement_timestamp() - interval '1 hour'
