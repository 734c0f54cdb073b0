-- name: view_id_exists
-- views/detail.py; reads only, from the table of tasks or of workflows
SELECT true FROM /* table */ WHERE id = $1

-- name: view_find_id
-- views/detail.py; reads only, from the table of tasks or of workflows: ids with this beginning or end
-- ($1), newest first, up to $2; ends only among the newest $3
-- By the primary key in any collation: ids with this beginning lie between the text and the text with a suffix of
-- letters after all those in ids.
SELECT id FROM (
    (SELECT id, created_at FROM /* table */
      WHERE id >= $1::text AND id <= $1::text || repeat('z', 36) AND starts_with(id, $1::text)
      ORDER BY created_at DESC, id DESC
      LIMIT $2)
    UNION
    (SELECT id, created_at
       FROM (SELECT id, created_at FROM /* table */ ORDER BY created_at DESC, id DESC LIMIT $3) newest
      WHERE right(id, length($1::text)) = $1::text
      ORDER BY created_at DESC, id DESC
      LIMIT $2)
) found
 ORDER BY created_at DESC, id DESC
 LIMIT $2

-- name: view_task_story
-- views/detail.py; reads only ($1 task, $2 characters of each text at most, $3 copies at most): what lists do not show
-- Counting characters decompresses the text, 50 ms for 10 MB; texts of more than four bytes per character are not counted.
SELECT left(args, $2) AS args, octet_length(args) AS args_size,
       CASE WHEN octet_length(args) / 4 > $2 THEN true ELSE length(args) > $2 END AS args_cut,
       left(kwargs, $2) AS kwargs, octet_length(kwargs) AS kwargs_size,
       CASE WHEN octet_length(kwargs) / 4 > $2 THEN true ELSE length(kwargs) > $2 END AS kwargs_cut,
       left(task_options, $2) AS options, octet_length(task_options) AS options_size,
       CASE WHEN octet_length(task_options) / 4 > $2 THEN true ELSE length(task_options) > $2 END AS options_cut,
       left(result, $2) AS result, octet_length(result) AS result_size,
       CASE WHEN octet_length(result) / 4 > $2 THEN true ELSE length(result) > $2 END AS result_cut,
       left(failed_reason, $2) AS reason, octet_length(failed_reason) AS reason_size,
       CASE WHEN octet_length(failed_reason) / 4 > $2 THEN true ELSE length(failed_reason) > $2 END AS reason_cut,
       -- Upstream's tables lack rerun_of: then the name in the subquery refers to this one, and nothing is found.
       ARRAY(SELECT id FROM horsies_tasks WHERE rerun_of = $1 ORDER BY created_at DESC, id DESC LIMIT $3) AS reruns,
       node.*
  FROM (VALUES (NULL::text)) AS absent (rerun_of)
 CROSS JOIN horsies_tasks task
  LEFT JOIN LATERAL (
        SELECT workflow_id, workflow.name, workflow.status AS workflow_status, task_index, node_id,
               node.status AS node_status
          FROM horsies_workflow_tasks node
          JOIN horsies_workflows workflow ON workflow.id = node.workflow_id
         WHERE node.task_id = task.id
         LIMIT 1) node ON true
 WHERE task.id = $1

-- name: view_brief_arguments
-- views/detail.py; reads only ($1 tasks, $2 bytes at most): arguments that are short; of longer ones no more than their size
SELECT id,
       CASE WHEN octet_length(args) <= $2 THEN args END AS args, octet_length(args) AS args_size,
       CASE WHEN octet_length(kwargs) <= $2 THEN kwargs END AS kwargs, octet_length(kwargs) AS kwargs_size
  FROM horsies_tasks
 WHERE id = ANY ($1::text[])

-- name: view_task_attempts
-- views/detail.py; reads only ($1 task, $2 attempts at most): the newest ones, newest first, and how many there are
-- Upstream's tables lack `output` and `app_version`: then they are those of `absent`.
-- The version of the application is that of the worker, as long as a snapshot of it is kept.
SELECT newest.*, state.app_version
  FROM (SELECT count(*) OVER () AS all_of_them, found.*
          FROM (VALUES (NULL::text)) AS absent (output)
         CROSS JOIN LATERAL (
               SELECT attempt, outcome, will_retry, started_at, finished_at, error_code, error_message, failed_reason,
                      worker_id, worker_hostname, worker_pid, worker_process_name, output
                 FROM horsies_task_attempts
                WHERE task_id = $1) found
         ORDER BY attempt DESC
         LIMIT $2) newest
 CROSS JOIN (VALUES (NULL::text)) AS absent (app_version)
  LEFT JOIN LATERAL (
        -- By both columns, as in `order_workers`.
        SELECT worker_id, app_version FROM horsies_worker_states WHERE worker_id >= newest.worker_id
         ORDER BY worker_id, snapshot_at DESC LIMIT 1) state ON state.worker_id = newest.worker_id
 ORDER BY attempt DESC

-- name: view_task_beats
-- views/detail.py; reads only: the newest beats of each span of time, newest first
-- ($1 task; of the spans: $2 numbers, $3 roles, $4 beginnings, $5 ends or NULL; $6 beats of each at most)
SELECT span.number, beat.sent_at, beat.sender_id
  FROM unnest($2::integer[], $3::text[], $4::timestamptz[], $5::timestamptz[]) AS span (number, role, since, until)
 CROSS JOIN LATERAL (
        SELECT sent_at, sender_id FROM horsies_heartbeats
         WHERE task_id = $1 AND role = span.role AND sent_at >= span.since
           AND sent_at <= COALESCE(span.until, 'infinity')
         ORDER BY sent_at DESC
         LIMIT $6) beat
 ORDER BY span.number, beat.sent_at DESC
