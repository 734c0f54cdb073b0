-- operations/workflow_judging.py; reads only: what was done last by hand to each of these workflows ($1 workflows)
SELECT asked.id, newest.id
  FROM unnest($1::text[]) AS asked (id)
 CROSS JOIN LATERAL (SELECT id FROM horsies_operator_actions
                      WHERE target_kind = 'workflow' AND target_id = asked.id AND outcome = 'applied'
                      ORDER BY id DESC LIMIT 1) newest
