-- retention.py, a page of its scan; reads only ($1 age in s, $2 and $3 after this time and id, $4 how many)
SELECT id, taken_at AS after, id AS after_id, 1 AS rows
  FROM horsies_worker_losses
 WHERE taken_at < statement_timestamp() - $1 * interval '1 s' AND taken_at >= $2 AND (taken_at, id) > ($2, $3)
 ORDER BY taken_at, id
 LIMIT $4
