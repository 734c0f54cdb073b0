-- name: audit_session
-- operations/audit_rows.py, before an action is tried; reads only
SELECT statement_timestamp() AS now, current_user AS role, pg_is_in_recovery() AS standby,
       current_setting('transaction_read_only') = 'on' AS read_only,
       to_regclass('horsies_operator_actions') IS NOT NULL
       AND EXISTS (SELECT FROM pg_attribute WHERE attrelid = to_regclass('horsies_tasks') AND attname = 'rerun_of')
           AS upgraded,
       ARRAY(SELECT privilege || ' ON ' || table_name
               FROM (VALUES ('SELECT', 'horsies_tasks'), ('UPDATE', 'horsies_tasks'), ('INSERT', 'horsies_tasks'),
                            ('SELECT', 'horsies_task_attempts'), ('INSERT', 'horsies_task_attempts'),
                            ('SELECT', 'horsies_operator_actions'), ('INSERT', 'horsies_operator_actions'))
                    AS needed (privilege, table_name)
              WHERE NOT has_table_privilege(to_regclass(table_name), privilege)
              UNION ALL
             -- GRANT INSERT does not include it.
             SELECT 'USAGE ON SEQUENCE ' || serial
               FROM (SELECT pg_get_serial_sequence(to_regclass('horsies_task_attempts')::text, 'id')) AS made (serial)
              WHERE NOT has_sequence_privilege(serial, 'USAGE')) AS lacking

-- name: audit_rights
-- operations/audit_rows.py, before an action on other targets than tasks; reads only: the privileges that this role lacks
-- ($1 the tables that are written)
SELECT privilege || ' ON ' || name
  FROM unnest($1::text[]) AS name
 CROSS JOIN unnest(ARRAY['SELECT', 'INSERT', 'UPDATE']) AS privilege
 WHERE NOT has_table_privilege(to_regclass(name), privilege)

-- name: audit_actions
-- operations/audit_rows.py, what an operation has changed; reads only ($1 operation)
SELECT id, verb, target_kind, target_id, before_state ->> 'status' AS status,
       COALESCE(after_state ->> 'new_task_id', after_state ->> 'new_workflow_id') AS new_id
  FROM horsies_operator_actions
 WHERE operation_id = $1 AND outcome = 'applied'
 ORDER BY id

-- name: audit_undone
-- operations/audit_rows.py, an operation that is to be undone; reads only ($1 operation)
SELECT verb, target_kind, count(*) OVER (PARTITION BY target_kind), acted_at, concat_ws('@', os_user, os_host), reason
  FROM horsies_operator_actions
 WHERE operation_id = $1 AND outcome = 'applied'
 ORDER BY id
 LIMIT 1

-- name: audit_rows
-- operations/audit_rows.py, in the transaction of the change; writes only the audit rows
-- ($1 to $6 as in `operation`, $7 kinds, $8 targets, $9 outcomes, $10 details, $11 before, $12 after, $13 the
-- audit rows that are undone)
WITH /* operation */, audited AS (
    SELECT given.kind, given.id, given.outcome, given.detail, given.before, given.after, given.undoes, given.number
      FROM unnest($7::text[], $8::text[], $9::text[], $10::text[], $11::jsonb[], $12::jsonb[], $13::bigint[])
           WITH ORDINALITY AS given (kind, id, outcome, detail, before, after, undoes, number)
), /* audit */
SELECT count(*) FROM audited
