-- by_hand.lock_sources, first half of a rerun; holds the rows until the copies are stored ($1 tasks)
SELECT id, task_name, queue_name, priority, args, kwargs, task_options, unique_key,
       CASE WHEN good_until > statement_timestamp() THEN good_until END AS good_until,
       -- The clock of the server: the fingerprint of a copy contains when it was sent.
       statement_timestamp() AS now
  FROM horsies_tasks
 WHERE id = ANY ($1::text[])
 ORDER BY id
   FOR NO KEY UPDATE
