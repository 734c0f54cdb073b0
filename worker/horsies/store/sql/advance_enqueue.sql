-- node_tasks; the node is READY without a task; under the families' locks
-- ($1 workflows, $2 indexes, $3 tasks, $4 names, $5 fingerprints, $6 sent at, $7 queues, $8 priorities, $9 kwargs,
--  $10 options, $11 good until, $12 max retries)
WITH found AS MATERIALIZED (
    SELECT node.id, new.task_id
      FROM unnest($1::text[], $2::integer[], $3::text[]) AS new (workflow_id, index, task_id)
     CROSS JOIN LATERAL (SELECT id FROM horsies_workflow_tasks
                          WHERE workflow_id = new.workflow_id AND task_index = new.index OFFSET 0) node
), linked AS (
    UPDATE horsies_workflow_tasks node
       SET status = 'ENQUEUED', task_id = found.task_id
      FROM found
     WHERE node.id = ANY (ARRAY(SELECT id FROM found)) AND node.id = found.id
       AND CASE WHEN node.status = 'READY' THEN node.task_id IS NULL END
    RETURNING node.task_id
)
INSERT INTO horsies_tasks (id, task_name, enqueue_sha, sent_at, queue_name, priority, kwargs, task_options, good_until,
                           max_retries, is_workflow_task)
SELECT new.id, new.name, new.sha, new.sent_at, new.queue, new.priority, new.kwargs, new.options, new.good_until,
       new.max_retries, true
  FROM unnest($3::text[], $4::text[], $5::text[], $6::timestamptz[], $7::text[], $8::integer[], $9::text[],
              $10::text[], $11::timestamptz[], $12::integer[])
       AS new (id, name, sha, sent_at, queue, priority, kwargs, options, good_until, max_retries)
  JOIN linked ON linked.task_id = new.id
RETURNING id
