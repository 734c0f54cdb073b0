-- name: server_settings
-- dedicated_connection.inspect_server; reads only: the backend, and the settings of the server or the role that matter
SELECT pg_backend_pid() AS pid, current_setting('synchronous_commit') AS commits,
       current_setting('default_transaction_isolation') AS isolation
