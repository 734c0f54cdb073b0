-- workflow_reading.py, for all who wait at this moment ($1 ids); reads only
-- What is large is read once, when it is final, and not at each look.
SELECT id, status,
       CASE WHEN status = 'COMPLETED' THEN result END AS result,
       CASE WHEN status IN ('FAILED', 'CANCELLED') THEN error END AS error
  FROM horsies_workflows
 WHERE id = ANY ($1::text[])
