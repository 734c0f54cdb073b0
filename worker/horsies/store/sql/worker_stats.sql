-- reading.py, broker.get_worker_stats(); reads only
SELECT task.worker_hostname, task.worker_pid, task.worker_process_name,
       count(*) AS active_tasks,
       min(task.started_at) AS oldest_task_start,
       max(beat.sent_at) AS latest_heartbeat
  FROM horsies_tasks task
  LEFT JOIN LATERAL (
        SELECT sent_at FROM horsies_heartbeats
         WHERE task_id = task.id AND role = 'runner' AND sent_at >= task.started_at
         ORDER BY sent_at DESC
         LIMIT 1) beat ON true
 WHERE task.status = 'RUNNING'
 GROUP BY task.worker_hostname, task.worker_pid, task.worker_process_name
 ORDER BY active_tasks DESC, task.worker_hostname, task.worker_pid
