-- recovering.requeue_stale_claims, its scan; reads only ($1 threshold in ms, $2 interval of the beats in ms, $3 how many)
SELECT task.id, task.claimed_by_worker_id, task.claimed_at
  FROM horsies_tasks task
  LEFT JOIN LATERAL (
        SELECT sent_at FROM horsies_heartbeats
         WHERE task_id = task.id AND role = 'claimer' AND sent_at >= task.claimed_at
         ORDER BY sent_at DESC
         LIMIT 1) beat ON true
 WHERE task.status = 'CLAIMED'
       -- A row that was made CLAIMED by hand may lack the time.
   AND COALESCE(task.claimed_at, task.updated_at) < (SELECT horsies_silent_before($1, $2))
   AND (beat.sent_at IS NULL OR beat.sent_at < (SELECT horsies_silent_before($1, $2)))
 ORDER BY task.id
 LIMIT $3
