-- starting.start under caps that count only what runs; as start.sql, and horsies_room_to_run of migration 008 finds room
-- ($1 to $6 as in start.sql, $7 queues of the tasks, $8 capped queues, $9 their caps)
-- Word for word start.sql, where the reasons stand too; a test compares them.
WITH fitting AS MATERIALIZED (
    SELECT id FROM horsies_room_to_run($2, $7, $8, $9) AS id
), started AS (
    UPDATE horsies_tasks task
       SET status = 'RUNNING', claimed = false, claim_expires_at = NULL, started_at = statement_timestamp(),
           worker_pid = token.pid, worker_hostname = token.hostname, worker_process_name = token.process_name,
           finalizing_at = NULL, finalizing_by_worker_id = NULL, updated_at = statement_timestamp()
      FROM unnest($2::text[], $3::timestamptz[], $4::integer[], $5::text[], $6::text[]) WITH ORDINALITY
           AS token (id, claimed_at, pid, hostname, process_name, number)
     WHERE task.id = ANY ($2) AND task.id = token.id
       AND CASE WHEN task.claimed_by_worker_id = $1 AND task.claimed_at = token.claimed_at
                THEN task.status = 'CLAIMED' AND task.claim_expires_at > clock_timestamp()
                     AND (task.good_until IS NULL OR task.good_until > clock_timestamp())
                     AND CASE WHEN task.is_workflow_task THEN NOT horsies_is_held(task.id) ELSE true END
                     OR task.status = 'RUNNING' END
       AND task.id IN (SELECT id FROM fitting)
    RETURNING token.number
)
SELECT number, true AS fits FROM started
 UNION ALL
SELECT token.number, false
  FROM unnest($2::text[], $3::timestamptz[]) WITH ORDINALITY AS token (id, claimed_at, number)
  JOIN horsies_tasks task ON task.id = token.id
 WHERE task.id = ANY ($2) AND task.id NOT IN (SELECT id FROM fitting)
   AND CASE WHEN task.status = 'CLAIMED' AND task.claimed_by_worker_id = $1 THEN task.claimed_at = token.claimed_at END
