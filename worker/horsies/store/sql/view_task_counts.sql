-- views/counts.py; reads only ($1 to $67 as in view_candidates.sql). Without a match: one row without a state
SELECT statement_timestamp() AS now, found.*
  FROM (SELECT) always
  LEFT JOIN (SELECT state, count(*) AS number FROM task GROUP BY state) found ON true
