-- name: view_audit
-- views/audit.py; reads only
-- ($1 rows at most, $2 and $3 the last row before, $4 operation, $5 and $6 kind and id of the target; NULL: not wanted)
SELECT id, acted_at, operation_id, verb, target_kind, target_id, outcome, detail, before_state, after_state, os_user,
       os_host, db_role, reason, filter, undoes,
       (SELECT later.id FROM horsies_operator_actions later
         WHERE later.undoes = action.id AND later.outcome = 'applied'
         ORDER BY later.id DESC LIMIT 1) AS undone_by
  FROM horsies_operator_actions action
 WHERE ($2::timestamptz IS NULL OR (acted_at, id) < ($2, $3::bigint))
   AND ($4::uuid IS NULL OR operation_id = $4)
   AND ($5::text IS NULL OR target_kind = $5 AND target_id = $6::text)
 ORDER BY acted_at DESC, id DESC
 LIMIT $1
