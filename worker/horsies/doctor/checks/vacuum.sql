-- name: doctor_dead_rows
-- vacuum.py; reads only ($1 schema, $2 our tables). `threshold`: from how many dead rows on autovacuum begins, by the
-- table's own settings or those of the server
SELECT class.relname::text AS name,
       pg_stat_get_live_tuples(class.oid) AS living, pg_stat_get_dead_tuples(class.oid) AS dead,
       extract(epoch FROM clock_timestamp() - GREATEST(pg_stat_get_last_autovacuum_time(class.oid),
                                                       pg_stat_get_last_vacuum_time(class.oid)))::float8 AS vacuumed_s,
       pg_total_relation_size(class.oid) AS bytes,
       COALESCE(own.enabled, true) AS enabled,
       COALESCE(own.threshold, current_setting('autovacuum_vacuum_threshold')::float8)
           + COALESCE(own.scale, current_setting('autovacuum_vacuum_scale_factor')::float8)
             * GREATEST(class.reltuples, 0) AS threshold,
       current_setting('autovacuum')::boolean AS autovacuum, current_setting('track_counts')::boolean AS track_counts
  FROM pg_class class
  JOIN pg_namespace namespace ON namespace.oid = class.relnamespace
 CROSS JOIN LATERAL (
        SELECT bool_and(option_value::boolean) FILTER (WHERE option_name = 'autovacuum_enabled') AS enabled,
               max(option_value::float8) FILTER (WHERE option_name = 'autovacuum_vacuum_threshold') AS threshold,
               max(option_value::float8) FILTER (WHERE option_name = 'autovacuum_vacuum_scale_factor') AS scale
          FROM pg_options_to_table(class.reloptions)) own
 WHERE namespace.nspname = $1 AND class.relname = ANY ($2::text[]) AND class.relkind IN ('r', 'p')
 ORDER BY class.relname
