-- views/detail.py; reads only ($1 task, $2 attempts at most): the newest ones, newest first, and how many there are
SELECT attempt, outcome, will_retry, started_at, finished_at, error_code, error_message, failed_reason, worker_id,
       worker_hostname, worker_pid, worker_process_name, count(*) OVER () AS all_of_them
  FROM horsies_task_attempts
 WHERE task_id = $1
 ORDER BY attempt DESC
 LIMIT $2
