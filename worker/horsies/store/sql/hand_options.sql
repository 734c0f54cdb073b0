-- operations/tasks.py, requeue with a fresh budget; reads only: what no verb changes ($1 tasks)
SELECT id, task_options FROM horsies_tasks WHERE id = ANY ($1::text[])
