-- name: doctor_slots
-- replication.py; reads only. `kept`: the WAL from the slot's place to the newest
SELECT slot_name::text AS slot_name, quote_literal(slot_name) AS literal, slot_type, active, wal_status,
       xmin IS NOT NULL OR catalog_xmin IS NOT NULL AS holds_vacuum,
       pg_wal_lsn_diff(CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END,
                       restart_lsn)::bigint AS kept
  FROM pg_replication_slots
 WHERE NOT temporary
 ORDER BY slot_name

-- name: doctor_wal_size
-- replication.py; reads only. Only for roles with pg_monitor
SELECT count(*) AS files, COALESCE(sum(size), 0)::bigint AS bytes,
       pg_size_bytes(current_setting('max_wal_size')) AS most,
       pg_size_bytes(current_setting('wal_keep_size')) AS kept_anyway
  FROM pg_ls_waldir()

-- name: doctor_data_directory
-- replication.py; reads only. The directory is NULL for roles without pg_monitor
SELECT (SELECT setting FROM pg_settings WHERE name = 'data_directory') AS directory, current_setting('port')::integer AS port,
       extract(epoch FROM pg_postmaster_start_time())::float8 AS started_at

-- name: doctor_archive
-- replication.py; reads only. No row while the archive takes the WAL, or is switched off
SELECT last_failed_wal, extract(epoch FROM now() - COALESCE(last_archived_time, stats_reset))::float8 AS failing_s
  FROM pg_stat_archiver
 WHERE current_setting('archive_mode') <> 'off' AND last_failed_time > COALESCE(last_archived_time, '-infinity')
