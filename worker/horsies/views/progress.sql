-- name: view_progress
-- views/progress.py; reads only, each by the primary key ($1 tasks, $2 starts of their runs)
SELECT run.task_id, run.started_at, done, total, unit, rate, gap_s, reported_at
  FROM unnest($1::text[], $2::timestamptz[]) AS run (task_id, started_at)
 CROSS JOIN LATERAL (
       SELECT done, total, unit, rate, gap_s, reported_at FROM horsies_progress
        WHERE task_id = run.task_id AND started_at = run.started_at
        LIMIT 1) report

-- name: view_part_done
-- views/progress.py; reads only: the running nodes of these workflows ($1), each task and its report by primary key
-- Not a join of the tasks: it would read all that run, by the index of tasks in flight.
SELECT node.workflow_id, sum(CASE WHEN report.done >= 1e-9 THEN LEAST(report.done, report.total) / report.total ELSE 0 END)
  FROM unnest($1::text[]) AS asked (workflow_id)
 CROSS JOIN LATERAL (SELECT workflow_id, task_id FROM horsies_workflow_tasks
                      WHERE workflow_id = asked.workflow_id
                        AND status IN /* open_nodes */ AND status = 'RUNNING' OFFSET 0) node
 CROSS JOIN LATERAL (
       SELECT done, total FROM horsies_progress
        WHERE task_id = node.task_id AND total BETWEEN 1e-9 AND 1e15
          AND started_at = (SELECT CASE WHEN status = 'RUNNING' THEN started_at END
                              FROM horsies_tasks WHERE id = node.task_id LIMIT 1)
        LIMIT 1) report
 GROUP BY node.workflow_id
