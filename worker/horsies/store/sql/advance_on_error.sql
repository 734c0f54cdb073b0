-- advancing, after nodes have FAILED; keeps an error that is stored; PAUSED where that is wanted and it is RUNNING; under the
-- families' locks ($1 workflows, $2 errors)
UPDATE horsies_workflows workflow
   SET error = COALESCE(workflow.error, failed.error),
       status = CASE WHEN workflow.on_error = 'pause' AND workflow.status = 'RUNNING' THEN 'PAUSED'
                     ELSE workflow.status END,
       updated_at = statement_timestamp()
  FROM unnest($1::text[], $2::text[]) AS failed (workflow_id, error)
 WHERE workflow.id = ANY ($1) AND workflow.id = failed.workflow_id
RETURNING workflow.id, workflow.status
