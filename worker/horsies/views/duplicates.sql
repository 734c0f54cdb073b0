-- name: view_has_duplicates
-- views/duplicates.py; reads only
SELECT COALESCE(has_table_privilege(to_regclass('horsies_duplicate_sends'), 'SELECT'), false)

-- name: view_duplicates
-- views/duplicates.py; reads only, each task by the primary key ($1 tasks)
SELECT asked.id, counted.sends, counted.last_at
  FROM unnest($1::text[]) AS asked (id)
 CROSS JOIN LATERAL (
       SELECT sum(sends)::bigint AS sends, max(last_at) AS last_at FROM horsies_duplicate_sends
        WHERE task_id = asked.id) counted
 WHERE counted.sends IS NOT NULL
