-- enqueue.py, after an insert that left rows out; reads who has these ids and who is alive with these unique keys
SELECT id, enqueue_sha, NULL AS unique_key FROM horsies_tasks WHERE id = ANY ($1::text[])
UNION ALL
SELECT id, enqueue_sha, unique_key FROM horsies_tasks
 WHERE unique_key = ANY ($2::text[]) AND status IN ('PENDING', 'CLAIMED', 'RUNNING')
