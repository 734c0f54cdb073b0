-- views/search.py; reads only: whether at most $1 tasks are PENDING
SELECT count(*) <= $1 FROM (SELECT FROM horsies_tasks WHERE status = 'PENDING' LIMIT $1::bigint + 1) AS pending
