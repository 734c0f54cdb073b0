-- reading.py, broker.get_stale_tasks(); reads only. Beats of an earlier attempt do not count: a second one that has just
-- started would be stale at once by them
SELECT task.id, task.worker_hostname, task.worker_pid, task.worker_process_name, beat.sent_at AS last_heartbeat,
       task.started_at, task.task_name
  FROM horsies_tasks task
  LEFT JOIN LATERAL (
        SELECT sent_at FROM horsies_heartbeats
         WHERE task_id = task.id AND role = 'runner' AND sent_at >= task.started_at
         ORDER BY sent_at DESC
         LIMIT 1) beat ON true
 WHERE task.status = 'RUNNING'
   AND COALESCE(beat.sent_at, task.started_at) < now() - $1::float8 * interval '1 minute'
 ORDER BY COALESCE(beat.sent_at, task.started_at), task.id
