-- retention.py, a page of its scan; reads only ($1 age in s, $2 any time and $3 after this id, $4 how many)
-- In the order of the ids, which is that of the times. Of a page without a single old row nothing older follows: it is empty.
SELECT id, $2::timestamptz AS after, id AS after_id, 1 AS rows
  FROM (SELECT id, sent_at FROM horsies_heartbeats WHERE id > $3 ORDER BY id LIMIT $4) page
 WHERE sent_at < statement_timestamp() - $1 * interval '1 s'
 ORDER BY id
