-- reading.py, broker.get_expired_tasks(); reads only
SELECT id, task_name, queue_name, priority, sent_at, enqueued_at, good_until, now() - good_until AS expired_for
  FROM horsies_tasks
 WHERE status = 'PENDING' AND good_until <= now()
 ORDER BY good_until, id
