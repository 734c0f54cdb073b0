-- name: workflow_last_actions
-- verbs/workflows.py, a rerun; reads only: the newest operator action on this workflow ($1 workflow)
SELECT id FROM horsies_operator_actions
 WHERE target_kind = 'workflow' AND target_id = $1 AND outcome = 'applied'
 ORDER BY id DESC LIMIT 1
