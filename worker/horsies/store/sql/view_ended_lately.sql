-- views/cluster.py; reads only ($1 how long ago at most, $2 tasks counted at most): what ended how, and since when
SELECT status, count(*) AS number, min(at) AS since
  FROM (SELECT status, COALESCE(completed_at, failed_at) AS at FROM horsies_tasks
         WHERE status IN ('COMPLETED', 'FAILED', 'CANCELLED', 'EXPIRED')
           AND COALESCE(completed_at, failed_at) > statement_timestamp() - $1::interval
         ORDER BY COALESCE(completed_at, failed_at) DESC
         LIMIT $2) AS lately
 GROUP BY status
