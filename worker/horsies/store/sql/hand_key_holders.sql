-- operations/tasks.py, preview; reads only: the live tasks that have these unique keys ($1 keys)
SELECT unique_key, id
  FROM horsies_tasks
 WHERE unique_key = ANY ($1::text[]) AND status IN ('PENDING', 'CLAIMED', 'RUNNING')
