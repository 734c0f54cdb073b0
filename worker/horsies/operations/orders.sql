-- name: order_rights
-- operations/orders.py, before an action is tried; reads only ($1 the table that stores these orders)
SELECT privilege || ' ON ' || $1::text
  FROM unnest(ARRAY['SELECT', 'INSERT', 'UPDATE']) AS privilege
 WHERE NOT has_table_privilege($1::text::regclass, privilege)

-- name: order_refused
-- operations/workers.py and queues.py, for targets that the statement before did not change; guards nothing, writes
-- only the audit rows
-- ($1 operation, $2 verb, $3 kind, $4 targets, $5 their present state, $6 OS user, $7 OS host, $8 reason)
INSERT INTO horsies_operator_actions (operation_id, verb, target_kind, target_id, outcome, detail, os_user, os_host, reason)
SELECT $1, $2, $3, target_id, 'refused', detail, $6, $7, $8
  FROM unnest($4::text[], $5::text[]) AS refused (target_id, detail)
