-- completing; reads only: RUNNING workflows among these without a node that is not over ($1 workflows)
SELECT workflow.id, workflow.definition_key, workflow.output_task_index, workflow.success_policy::text AS success_policy,
       workflow.error
  FROM horsies_workflows workflow
 WHERE workflow.id = ANY ($1)
   AND CASE workflow.status
            WHEN 'RUNNING'
            -- Not EXISTS: that may be answered by reading the open nodes of all workflows.
            THEN CASE WHEN (SELECT count(*)
                              FROM (SELECT FROM horsies_workflow_tasks
                                     WHERE workflow_id = workflow.id AND status IN ('PENDING', 'READY', 'ENQUEUED', 'RUNNING')
                                     LIMIT 1) open) = 0
                      -- Nor is it over with a node whose status is no status at all.
                      THEN (SELECT bool_and(CASE WHEN status IN ('COMPLETED', 'FAILED', 'SKIPPED') THEN true ELSE false END)
                              FROM horsies_workflow_tasks
                             WHERE workflow_id = workflow.id) IS NOT FALSE END END
