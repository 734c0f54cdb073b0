-- recovering.end_silent_sessions; sessions of this product and of this role ($1 how long in ms)
-- Between the Parse of a statement and its Bind, idle_in_transaction_session_timeout does not count, for the session is
-- active, and statement_timeout ends nothing, for the server reads. A client that is stopped there keeps its locks; only
-- from PostgreSQL 17 on transaction_timeout would end it.
WITH silent AS MATERIALIZED (
    SELECT pid, application_name
      FROM pg_stat_activity
     WHERE datname = current_database() AND usename = current_user AND application_name LIKE 'horsies %'
       AND state = 'active' AND wait_event = 'ClientRead'
       AND backend_xid IS NOT NULL -- it has locked rows, or written
       AND state_change < clock_timestamp() - $1 * interval '1 ms'
)
SELECT application_name FROM silent WHERE pg_terminate_backend(pid, 1000)
