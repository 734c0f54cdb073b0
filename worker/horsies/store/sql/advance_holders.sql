-- advancing.lock_families, when it has waited in vain; reads only: who holds the rows of these workflows ($1 roots)
-- A lock on a row is not in pg_locks, but the transaction is, and the row names it. Several at once are not resolved.
SELECT activity.pid, activity.application_name, activity.usename::text AS role, activity.state,
       round(extract(epoch FROM clock_timestamp() - activity.xact_start))::bigint AS since_s
  FROM horsies_workflows workflow
  JOIN pg_locks held ON held.locktype = 'transactionid' AND held.transactionid = workflow.xmax AND held.granted
  JOIN pg_stat_activity activity ON activity.pid = held.pid
 WHERE workflow.id = ANY ($1) AND held.pid <> pg_backend_pid()
 ORDER BY activity.xact_start
 LIMIT 1
