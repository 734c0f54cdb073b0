-- retention.py; still old enough ($1 age in s, $2 ids)
WITH gone AS (
    DELETE FROM horsies_worker_losses
     WHERE id = ANY ($2::bigint[]) AND taken_at < statement_timestamp() - $1 * interval '1 s'
    RETURNING id
)
SELECT count(*) AS worker_losses FROM gone
