-- controlling.resume, reconciling.reconcile: READY nodes whose child workflow some worker has to build ($1 workflows)
SELECT count(pg_notify('horsies_workflow_ready', waiting.workflow_id))
  FROM (SELECT DISTINCT workflow_id
          FROM horsies_workflow_tasks
         WHERE workflow_id = ANY ($1::text[]) AND status = 'READY' AND is_subworkflow) waiting
