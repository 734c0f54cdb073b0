-- name: view_ended_lately
-- views/cluster.py; reads only
-- ($1 how long ago at most, $2 tasks counted at most): how many tasks ended in which status, and since when
SELECT status, count(*) AS number, min(at) AS since
  FROM (SELECT status, COALESCE(completed_at, failed_at) AS at FROM horsies_tasks
         WHERE status IN /* ended_tasks */
           AND COALESCE(completed_at, failed_at) > statement_timestamp() - $1::interval
         ORDER BY COALESCE(completed_at, failed_at) DESC
         LIMIT $2) AS lately
 GROUP BY status

-- name: view_interrupted_count
-- views/cluster.py; reads only ($1 counted at most): tasks that were stopped at a shutdown and need a decision
SELECT count(*) FROM (SELECT FROM horsies_tasks WHERE status = 'FAILED' AND error_code = 'TASK_INTERRUPTED'
                       LIMIT $1::bigint) AS interrupted
