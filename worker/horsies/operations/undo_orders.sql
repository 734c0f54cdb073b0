-- name: order_done
-- operations/undo_orders.py, what an operation did to workers and queues, and undo_workflows.py, to workflows; reads
-- only
-- ($1 operation, $2 kinds of targets)
SELECT action.id, action.verb, action.target_kind, action.target_id,
       COALESCE(action.after_state ->> 'draining_since', action.after_state ->> 'paused_at')::timestamptz AS since,
       (SELECT concat('it was acted on by hand since: ', later.verb, ' by ', later.os_user, '@', later.os_host)
          FROM horsies_operator_actions later
         WHERE later.target_kind = action.target_kind AND later.target_id = action.target_id AND later.id > action.id
           AND later.outcome = 'applied'
         ORDER BY later.id DESC LIMIT 1) AS since_then
  FROM horsies_operator_actions action
 WHERE action.operation_id = $1 AND action.outcome = 'applied' AND action.target_kind = ANY ($2::text[])
 ORDER BY action.id
