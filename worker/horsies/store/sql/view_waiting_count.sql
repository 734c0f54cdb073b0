-- views/counts.py; reads only, of indexes: how many tasks are PENDING, and how many of them wait to be tried again
-- ($1 counted at most, of each)
SELECT (SELECT count(*)
          FROM (SELECT FROM horsies_tasks WHERE status = 'PENDING' LIMIT $1::bigint) AS pending) AS pending,
       (SELECT count(*)
          FROM (SELECT FROM horsies_tasks WHERE status = 'PENDING' AND next_retry_at > statement_timestamp()
                 LIMIT $1::bigint) AS retrying) AS retrying
