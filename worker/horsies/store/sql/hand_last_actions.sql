-- operations/tasks.py, preview of reruns; reads only ($1 tasks)
SELECT asked.id, newest.id
  FROM unnest($1::text[]) AS asked (id)
 CROSS JOIN LATERAL (SELECT id FROM horsies_operator_actions
                      WHERE target_kind = 'task' AND target_id = asked.id AND outcome = 'applied'
                      ORDER BY id DESC LIMIT 1) newest
