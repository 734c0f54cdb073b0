-- views/cluster.py; reads only ($1 counted at most): what was stopped at a shutdown and waits for a decision
SELECT count(*) FROM (SELECT FROM horsies_tasks WHERE status = 'FAILED' AND error_code = 'TASK_INTERRUPTED'
                       LIMIT $1::bigint) AS interrupted
