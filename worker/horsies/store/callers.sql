-- name: database_of_session
-- callers.py, on the caller's connection and on one of the engine, once each; reads only: its database, and whether the
-- role may ask for the server
SELECT datname, oid::bigint, pg_catalog.has_function_privilege('pg_catalog.pg_control_system()', 'EXECUTE')
  FROM pg_catalog.pg_database
 WHERE datname = pg_catalog.current_database()

-- name: server_of_session
-- callers.py, after database_of_session; reads only: what initdb has given the server
SELECT system_identifier FROM pg_catalog.pg_control_system()
