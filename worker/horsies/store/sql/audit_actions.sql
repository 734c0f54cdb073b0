-- operations/audit.py, what an operation has changed; reads only ($1 operation)
SELECT id, verb, target_kind, target_id, before_state ->> 'status' AS status
  FROM horsies_operator_actions
 WHERE operation_id = $1 AND outcome = 'applied'
 ORDER BY id
