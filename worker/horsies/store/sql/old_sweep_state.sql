-- retention.py, a page of its scan; reads only ($1 age in s, $2 and $3 after this time and id, $4 how many)
-- Duties of a threshold, which are named after it: one that no worker has any more is never taken again. In use, one is
-- taken every 10 minutes or more often.
SELECT sweep AS id, ran_at AS after, sweep AS after_id, 1 AS rows
  FROM horsies_sweep_state
 WHERE sweep LIKE '% %' AND ran_at < statement_timestamp() - $1 * interval '1 s' AND ran_at >= $2
   AND (ran_at, sweep) > ($2, $3)
 ORDER BY ran_at, sweep
 LIMIT $4
