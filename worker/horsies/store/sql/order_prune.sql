-- the worker's look at its orders, once an hour; a day old, and of a worker that has told nothing of itself for a day
-- A worker that is started again has a new id: its old orders are nobody's.
DELETE FROM horsies_worker_orders given
 WHERE updated_at < statement_timestamp() - interval '1 day'
   AND NOT EXISTS (SELECT FROM horsies_worker_states
                    WHERE worker_id = given.worker_id AND snapshot_at > statement_timestamp() - interval '1 day')
