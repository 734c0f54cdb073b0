-- advancing; PENDING nodes of RUNNING workflows that depend on what has ended, or all of them; under the families' locks
-- ($1 workflows, $2 indexes, NULL for all)
-- States of dependencies stand inside a CASE, as in start.sql, but for those that ix_horsies_workflow_tasks_open is for.
WITH ended AS MATERIALIZED (
    SELECT workflow_id, array_agg(index) AS indexes, bool_or(index IS NULL) AS whole
      FROM unnest($1::text[], $2::integer[]) AS ended (workflow_id, index)
     GROUP BY workflow_id
), waiting AS MATERIALIZED (
    SELECT node.*
      FROM ended
     CROSS JOIN LATERAL (SELECT id FROM horsies_workflows
                          WHERE id = ended.workflow_id AND CASE status WHEN 'RUNNING' THEN true END OFFSET 0) workflow
     CROSS JOIN LATERAL (SELECT id, workflow_id, dependencies, join_type, min_success, allow_failed_deps, workflow_ctx_from,
                                -- One whose status is no status at all has not ended: asked only where none is open.
                                CASE WHEN EXISTS (SELECT FROM horsies_workflow_tasks dependency
                                                   WHERE dependency.workflow_id = node.workflow_id
                                                     AND dependency.task_index = ANY (node.dependencies)
                                                     AND dependency.status IN ('PENDING', 'READY', 'ENQUEUED', 'RUNNING'))
                                     THEN true
                                     ELSE EXISTS (SELECT FROM horsies_workflow_tasks dependency
                                                   WHERE dependency.workflow_id = node.workflow_id
                                                     AND dependency.task_index = ANY (node.dependencies)
                                                     AND CASE WHEN dependency.status NOT IN ('COMPLETED', 'FAILED', 'SKIPPED')
                                                              THEN true END) END AS open
                           FROM horsies_workflow_tasks node
                          WHERE workflow_id = ended.workflow_id AND status IN ('PENDING', 'READY', 'ENQUEUED', 'RUNNING')
                            AND status = 'PENDING' AND (ended.whole OR dependencies && ended.indexes) OFFSET 0) node
), judged AS MATERIALIZED (
    SELECT node.id,
           CASE WHEN node.dependencies = '{}' THEN 'READY'
                WHEN node.join_type = 'any' THEN
                     CASE WHEN EXISTS (SELECT FROM horsies_workflow_tasks dependency
                                        WHERE dependency.workflow_id = node.workflow_id
                                          AND dependency.task_index = ANY (node.dependencies)
                                          AND CASE dependency.status WHEN 'COMPLETED' THEN true END) THEN 'READY'
                          WHEN NOT node.open THEN 'SKIPPED' END
                WHEN node.join_type = 'quorum' THEN
                     (SELECT CASE WHEN count(*) FILTER (WHERE dependency.status = 'COMPLETED') >= node.min_success
                                  THEN 'READY'
                                  WHEN count(*) FILTER (WHERE dependency.status NOT IN ('FAILED', 'SKIPPED'))
                                       >= node.min_success
                                  THEN NULL
                                  ELSE 'SKIPPED' END
                        FROM horsies_workflow_tasks dependency
                       WHERE dependency.workflow_id = node.workflow_id
                         AND dependency.task_index = ANY (node.dependencies))
                WHEN node.open THEN NULL
                WHEN NOT node.allow_failed_deps
                     AND EXISTS (SELECT FROM horsies_workflow_tasks dependency
                                  WHERE dependency.workflow_id = node.workflow_id
                                    AND dependency.task_index = ANY (node.dependencies)
                                    AND CASE WHEN dependency.status IN ('FAILED', 'SKIPPED') THEN true END)
                THEN 'SKIPPED'
                ELSE 'READY' END AS verdict,
           -- Whose results it is to be given together must all have ended, whatever the join is content with.
           node.open AND node.workflow_ctx_from IS NOT NULL
           AND EXISTS (SELECT FROM horsies_workflow_tasks dependency
                        WHERE dependency.workflow_id = node.workflow_id
                          AND dependency.task_index = ANY (node.dependencies)
                          AND CASE WHEN dependency.status NOT IN ('COMPLETED', 'FAILED', 'SKIPPED') THEN true END
                          AND dependency.node_id = ANY (node.workflow_ctx_from)) AS too_early
      FROM waiting node
)
UPDATE horsies_workflow_tasks node
   SET status = judged.verdict
  FROM judged
       -- The array bounds what is read whatever the plan expects.
 WHERE node.id = ANY (ARRAY(SELECT id FROM judged WHERE verdict = 'SKIPPED' OR verdict = 'READY' AND NOT too_early))
   AND node.id = judged.id
RETURNING node.workflow_id, node.task_index, node.status
