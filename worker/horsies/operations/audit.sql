-- name: audit_standing
-- operations/audit.py, before an action is tried; reads only
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

-- name: audit_actions
-- operations/audit.py, what an operation has changed; reads only ($1 operation)
SELECT id, verb, target_kind, target_id, before_state ->> 'status' AS status
  FROM horsies_operator_actions
 WHERE operation_id = $1 AND outcome = 'applied'
 ORDER BY id
