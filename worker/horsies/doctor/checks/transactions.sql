-- name: doctor_long_transactions
-- transactions.py; reads only ($1 from how many seconds on, $2 how many). The oldest first
-- A vacuum holds back no other one. Sessions in other databases do not hold back this one; a standby's may.
SELECT pid, application_name AS application, usename::text AS role, COALESCE(state, backend_type) AS state,
       backend_xid IS NOT NULL OR backend_xmin IS NOT NULL AS holds_vacuum,
       extract(epoch FROM clock_timestamp() - xact_start)::float8 AS age_s
  FROM pg_stat_activity
 WHERE xact_start < clock_timestamp() - $1::float8 * interval '1 s'
   AND (datname = current_database() OR backend_type = 'walsender')
   AND backend_type <> 'autovacuum worker' AND query !~* '^\s*vacuum' AND pid <> pg_backend_pid()
 ORDER BY xact_start
 LIMIT $2

-- name: doctor_prepared_transactions
-- transactions.py; reads only ($1 from how many seconds on, $2 how many). The oldest first
SELECT gid, quote_literal(gid) AS literal, owner::text AS owner,
       extract(epoch FROM clock_timestamp() - prepared)::float8 AS age_s
  FROM pg_prepared_xacts
 WHERE database = current_database() AND prepared < clock_timestamp() - $1::float8 * interval '1 s'
 ORDER BY prepared
 LIMIT $2
