-- views/workflows.py; reads only ($1 to $38 as in view_workflow_candidates.sql)
SELECT status, count(*) AS number FROM workflow GROUP BY status
