-- name: mark_operations
-- views/marks.py; reads only ($1 first bucket, $2 length of a bucket, $3 how many): the buckets in which an operator
-- acted, by one probe of ix_horsies_operator_actions_latest each
SELECT number
  FROM generate_series(0, $3::integer - 1) AS number
 CROSS JOIN LATERAL (
        SELECT acted_at FROM horsies_operator_actions
         WHERE acted_at >= $1::timestamptz + number * $2::interval
           AND acted_at < $1::timestamptz + (number + 1) * $2::interval
         ORDER BY acted_at DESC, id DESC LIMIT 1) newest
 ORDER BY number
