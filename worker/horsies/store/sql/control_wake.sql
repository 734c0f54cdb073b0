-- controlling.resume, afterwards: tasks of these workflows that nobody has claimed while they were paused ($1 workflows)
-- No trigger tells of a workflow that goes on, and each worker sleeps until its next poll.
SELECT count(pg_notify('task_queue_' || queue.name, 'resume:workflow'))
  FROM (SELECT DISTINCT queue_name AS name
          FROM horsies_workflow_tasks
         WHERE workflow_id = ANY ($1::text[]) AND status IN ('ENQUEUED', 'RUNNING') AND task_id IS NOT NULL
           AND octet_length(queue_name) <= 52) queue
