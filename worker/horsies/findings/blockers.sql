-- name: blockers
-- findings/blockers.py; reads only, and none of our tables, so that it answers while those are locked ($1 how many, $2
-- whether only blockers of readers count)
-- A reader waits only for locks of whole tables: a worker that waits for a row does not explain a slow read. Otherwise
-- all sessions count that wait for one of our tables, and our own sessions.
-- pg_blocking_pids names the sessions it waits for, which may wait as well: those that wait for none are the cause.
-- 0 stands for a prepared transaction, whose session may have ended long ago.
WITH RECURSIVE ours AS MATERIALIZED (
    SELECT table_.oid FROM pg_catalog.pg_class table_
     WHERE table_.relkind IN ('r', 'p') AND table_.relname LIKE 'horsies\_%' AND pg_catalog.pg_table_is_visible(table_.oid)
), waiting AS MATERIALIZED (
    SELECT lock.pid, min(lock.waitstart) AS since,
           min(lock.relation::regclass::text) FILTER (WHERE lock.relation IN (SELECT oid FROM ours)) AS table_name
      FROM pg_catalog.pg_locks lock
      JOIN pg_catalog.pg_stat_activity session ON session.pid = lock.pid
     WHERE NOT lock.granted AND session.datname = pg_catalog.current_database()
       AND CASE WHEN $2::boolean THEN lock.locktype = 'relation' AND lock.mode = 'AccessShareLock'
                                      AND lock.relation IN (SELECT oid FROM ours)
                ELSE lock.relation IN (SELECT oid FROM ours) OR session.application_name LIKE 'horsies %' END
     GROUP BY lock.pid
), chain (pid, waiter) AS (
    SELECT pid, pid FROM waiting
     UNION
    SELECT blocker.pid, chain.waiter
      FROM chain
     CROSS JOIN LATERAL pg_catalog.unnest(pg_catalog.pg_blocking_pids(chain.pid)) AS blocker (pid)
)
SELECT cause.pid, session.application_name AS application, session.usename::text AS role,
       COALESCE(session.client_hostname, host(session.client_addr)) AS host, session.state,
       NULLIF(session.query, '<insufficient privilege>') AS query,
       session.xact_start AS open_since, min(waiting.since) AS blocks_since,
       count(DISTINCT cause.waiter)::integer AS blocked, min(waiting.table_name) AS table_name,
       session.backend_start, pg_catalog.clock_timestamp() AS now
  FROM chain cause
  JOIN waiting ON waiting.pid = cause.waiter
  LEFT JOIN pg_catalog.pg_stat_activity session ON session.pid = cause.pid
 WHERE cause.pid <> cause.waiter AND pg_catalog.cardinality(pg_catalog.pg_blocking_pids(cause.pid)) = 0
 GROUP BY cause.pid, session.application_name, session.usename, session.client_hostname, session.client_addr,
          session.state, session.query, session.xact_start, session.backend_start
 ORDER BY blocked DESC, blocks_since, cause.pid
 LIMIT $1

-- name: lock_holders
-- doctor/checks/transactions.py; reads only, and no table of ours ($1 how many). Sessions that hold a lock on one of our
-- tables that prevents all reads or all writes
SELECT lock.pid, session.application_name AS application, session.usename::text AS role,
       COALESCE(session.client_hostname, host(session.client_addr)) AS host, session.state,
       NULLIF(session.query, '<insufficient privilege>') AS query, session.xact_start AS open_since,
       NULL::timestamptz AS blocks_since,
       (SELECT count(DISTINCT waiter.pid)::integer FROM pg_catalog.pg_locks waiter
         WHERE NOT waiter.granted AND lock.pid = ANY (pg_catalog.pg_blocking_pids(waiter.pid))) AS blocked,
       min(table_.relname)::text AS table_name, session.backend_start, pg_catalog.clock_timestamp() AS now
  FROM pg_catalog.pg_locks lock
  JOIN pg_catalog.pg_class table_ ON table_.oid = lock.relation
  LEFT JOIN pg_catalog.pg_stat_activity session ON session.pid = lock.pid
 WHERE lock.granted AND lock.database = (SELECT oid FROM pg_catalog.pg_database
                                          WHERE datname = pg_catalog.current_database())
   AND lock.mode IN ('AccessExclusiveLock', 'ExclusiveLock', 'ShareRowExclusiveLock', 'ShareLock')
   AND table_.relkind IN ('r', 'p') AND table_.relname LIKE 'horsies\_%'
   AND pg_catalog.pg_table_is_visible(table_.oid)
 GROUP BY lock.pid, session.application_name, session.usename, session.client_hostname, session.client_addr,
          session.state, session.query, session.xact_start, session.backend_start
 ORDER BY blocked DESC, open_since
 LIMIT $1
