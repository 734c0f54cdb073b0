-- retention.py, a page of its scan; reads only ($1 age in s, $2 and $3 after this time and id, $4 how many)
SELECT id, snapshot_at AS after, id AS after_id, 1 AS rows
  FROM horsies_worker_states
 WHERE snapshot_at < statement_timestamp() - $1 * interval '1 s' AND snapshot_at >= $2 AND (snapshot_at, id) > ($2, $3)
 ORDER BY snapshot_at, id
 LIMIT $4
