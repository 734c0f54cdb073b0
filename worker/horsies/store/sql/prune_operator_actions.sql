-- retention.py; still old enough; one that an undo under way refers to is left ($1 age in s, $2 ids)
-- A younger action that undid a deleted one stays, and its `undoes` becomes NULL.
WITH gone AS (
    DELETE FROM horsies_operator_actions
     WHERE id = ANY (ARRAY(
               SELECT id FROM horsies_operator_actions
                WHERE id = ANY ($2::bigint[]) AND acted_at < statement_timestamp() - $1 * interval '1 s'
                  FOR UPDATE SKIP LOCKED))
    RETURNING id
)
SELECT count(*) AS operator_actions FROM gone
