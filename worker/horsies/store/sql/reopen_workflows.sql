-- reopening.write; FAILED, RUNNING or PAUSED; under the family's lock ($1 workflows)
UPDATE horsies_workflows
   SET status = CASE WHEN status = 'PAUSED' THEN 'PAUSED' ELSE 'RUNNING' END,
       error = NULL, result = NULL, completed_at = NULL, updated_at = statement_timestamp()
 WHERE id = ANY ($1::text[]) AND status IN ('FAILED', 'RUNNING', 'PAUSED')
