-- recovering.expire_pending, its scan; reads only ($1 how many)
SELECT id FROM horsies_tasks WHERE status = 'PENDING' AND good_until <= statement_timestamp() ORDER BY good_until LIMIT $1
