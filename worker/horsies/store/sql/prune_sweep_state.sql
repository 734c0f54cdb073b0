-- retention.py; still old enough: a worker that takes the duty meanwhile keeps it ($1 age in s, $2 sweeps)
WITH gone AS (
    DELETE FROM horsies_sweep_state
     WHERE sweep = ANY ($2::text[]) AND ran_at < statement_timestamp() - $1 * interval '1 s'
    RETURNING sweep
)
SELECT count(*) AS sweep_state FROM gone
