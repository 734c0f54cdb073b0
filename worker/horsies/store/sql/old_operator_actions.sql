-- retention.py, a page of its scan; reads only ($1 age in s, $2 and $3 after this time and id, $4 how many)
SELECT id, acted_at AS after, id AS after_id, 1 AS rows
  FROM horsies_operator_actions
 WHERE acted_at < statement_timestamp() - $1 * interval '1 s' AND acted_at >= $2 AND (acted_at, id) > ($2, $3)
 ORDER BY acted_at, id
 LIMIT $4
