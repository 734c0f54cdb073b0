-- name: view_tables
-- views; reads only: which of our own tables exist, as upstream creates none of them
SELECT to_regclass('horsies_operator_actions') IS NOT NULL AS actions,
       to_regclass('horsies_queue_state') IS NOT NULL AS queue_state,
       to_regclass('horsies_worker_orders') IS NOT NULL AS worker_orders,
       to_regclass('horsies_worker_losses') IS NOT NULL AS worker_losses,
       to_regclass('horsies_schedules') IS NOT NULL AS schedules,
       statement_timestamp() AS now,
       -- The console's own sessions are read-only, so the session's setting says nothing about the role.
       CASE WHEN pg_is_in_recovery() THEN 'the server is a standby'
            -- The most specific setting applies: of this role here, of this role, of this database, of all.
            WHEN (SELECT split_part(said, '=', 2)::boolean
                    FROM pg_db_role_setting setting
                    LEFT JOIN pg_database here ON here.datname = current_database()
                    LEFT JOIN pg_roles me ON me.rolname = session_user
                   CROSS JOIN unnest(setting.setconfig) AS said
                   WHERE setting.setdatabase IN (0, here.oid) AND setting.setrole IN (0, me.oid)
                     AND said LIKE 'default\_transaction\_read\_only=%'
                   ORDER BY setting.setrole = 0, setting.setdatabase = 0
                   LIMIT 1)
                 THEN format('transactions of role %s are read-only by default', current_user)
            WHEN NOT has_table_privilege(to_regclass('horsies_tasks'), 'UPDATE')
                 THEN format('role %s may not change horsies_tasks', current_user) END AS no_writes,
       -- Created together with horsies_sweeps and horsies_queue_samples.
       to_regclass('horsies_outages') IS NOT NULL AS outages, pg_is_in_recovery() AS standby

-- name: view_default_source
-- views/reader_session.py; reads only: whether the session's default for transactions was set for the server as a whole
SELECT source NOT IN ('global', 'database', 'user', 'database user')
  FROM pg_settings WHERE name = 'default_transaction_read_only'

-- name: view_replay
-- views/reader_session.py; reads only, and no table: how far a standby has followed its primary; no row elsewhere
SELECT pg_wal_lsn_diff(pg_last_wal_receive_lsn(), '0/0')::bigint AS received,
       pg_wal_lsn_diff(pg_last_wal_replay_lsn(), '0/0')::bigint AS replayed,
       pg_last_xact_replay_timestamp() AS newest, pg_is_wal_replay_paused() AS paused,
       EXISTS (SELECT FROM pg_stat_wal_receiver) AS receives, clock_timestamp() AS now
 WHERE pg_is_in_recovery()

-- name: view_has_table
-- views/reader_session.py; reads only: whether the table $1 exists and this role may read it
SELECT COALESCE(has_table_privilege(to_regclass($1::text), 'SELECT'), false)
