-- name: doctor_indexes
-- indexes.py; reads only ($1 schema, $2 our tables)
-- `counted_s`: for how long uses have been counted, at least; the server's start stands for a time that is not known.
SELECT index.relname::text AS name, owner.relname::text AS on_table,
       entry.indisvalid AND entry.indisready AND entry.indislive AS valid,
       entry.indisunique OR entry.indisprimary OR entry.indisexclusion AS is_constraint,
       EXISTS (SELECT FROM pg_stat_progress_create_index WHERE index_relid = index.oid) AS being_built,
       pg_relation_size(index.oid) AS bytes,
       COALESCE(pg_stat_get_numscans(index.oid), 0) AS scans,
       extract(epoch FROM now() - (SELECT COALESCE(stats_reset, pg_postmaster_start_time()) FROM pg_stat_database
                                    WHERE datname = current_database()))::float8 AS counted_s
  FROM pg_index entry
  JOIN pg_class index ON index.oid = entry.indexrelid
  JOIN pg_class owner ON owner.oid = entry.indrelid
  JOIN pg_namespace namespace ON namespace.oid = owner.relnamespace
 WHERE namespace.nspname = $1 AND owner.relname = ANY ($2::text[])
 ORDER BY index.relname
