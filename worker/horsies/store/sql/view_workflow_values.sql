-- views/workflows.py; reads only ($1 to $38 as in view_workflow_candidates.sql, $39 a column, $40 values at most)
SELECT CASE $39::text WHEN 'name' THEN name WHEN 'definition_key' THEN definition_key WHEN 'error_code' THEN error_code END
       AS value
  FROM workflow
 GROUP BY 1
 ORDER BY count(*) DESC, 1
 LIMIT $40
