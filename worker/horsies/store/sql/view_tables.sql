-- views; reads only: which of our own tables are here, for upstream makes none of them
SELECT to_regclass('horsies_operator_actions') IS NOT NULL AS actions,
       to_regclass('horsies_queue_state') IS NOT NULL AS queue_state,
       to_regclass('horsies_worker_orders') IS NOT NULL AS worker_orders,
       to_regclass('horsies_worker_losses') IS NOT NULL AS worker_losses,
       statement_timestamp() AS now,
       -- The console's own sessions are read-only: what a session has says nothing of the role.
       CASE WHEN pg_is_in_recovery() THEN 'the server is a standby'
            WHEN EXISTS (SELECT FROM pg_db_role_setting setting
                           LEFT JOIN pg_database here ON here.datname = current_database()
                           LEFT JOIN pg_roles me ON me.rolname = current_user
                          WHERE setting.setdatabase IN (0, here.oid) AND setting.setrole IN (0, me.oid)
                            AND setting.setconfig && ARRAY['default_transaction_read_only=on',
                                                           'default_transaction_read_only=true',
                                                           'default_transaction_read_only=1',
                                                           'default_transaction_read_only=yes'])
                 THEN format('transactions of role %s are read-only by default', current_user)
            WHEN NOT has_table_privilege(to_regclass('horsies_tasks'), 'UPDATE')
                 THEN format('role %s may not change horsies_tasks', current_user) END AS no_writes
