-- name: look_begin
-- operations/looking.py; RUNNING, and the claim as it is now ($1 to $6 as in `operation`, $7 task, $8 kind, $9
-- whether with locals)
WITH /* operation */, task AS (
    SELECT id, task_name, status, claimed_by_worker_id AS worker_id, claimed_at, started_at
      FROM horsies_tasks
     WHERE id = $7
), made AS (
    INSERT INTO horsies_looks (look_id, task_id, worker_id, claimed_at, kind, with_locals)
    SELECT operation.id, task.id, worker_id, claimed_at, $8, $9
      FROM task, operation
     WHERE status = 'RUNNING' AND worker_id IS NOT NULL AND claimed_at IS NOT NULL
    RETURNING task_id, worker_id
), audited AS (
    SELECT 'task' AS kind, task_id AS id, 'applied' AS outcome, NULL AS detail, NULL::jsonb AS before,
           jsonb_build_object('worker_id', worker_id, 'kind', $8::text, 'with_locals', $9::boolean) AS after,
           NULL::bigint AS undoes, 1 AS number
      FROM made
), /* audit */, notified AS MATERIALIZED (
    SELECT pg_notify('horsies_look', worker_id) FROM made
)
SELECT task_name, status, worker_id, claimed_at, started_at FROM task WHERE (SELECT count(*) FROM notified) >= 0

-- name: look_occupant
-- operations/looking.py; reads only: what has run longest on this worker; of those that were started together the first
-- in the order of the claim ($1 worker)
SELECT id FROM horsies_tasks
 WHERE status = 'RUNNING' AND claimed_by_worker_id = $1
 ORDER BY started_at, claimed_at, priority, enqueued_at, id
 LIMIT 1

-- name: look_again
-- operations/looking.py; its last question is answered ($1 look, $2 the last line that is known)
WITH asked AS (
    UPDATE horsies_looks
       SET asked_at = statement_timestamp(), answered_at = NULL, answer = NULL, after_line = $2
     WHERE look_id = $1 AND answered_at IS NOT NULL
    RETURNING worker_id
)
SELECT pg_notify('horsies_look', worker_id) FROM asked

-- name: look_close
-- operations/looking.py; nothing guards it: its owner has closed it ($1 look)
DELETE FROM horsies_looks WHERE look_id = $1

-- name: look_answered
-- operations/looking.py, every 20 ms until it is; reads only ($1 look)
SELECT answered_at IS NOT NULL FROM horsies_looks WHERE look_id = $1

-- name: look_read
-- operations/looking.py; reads only ($1 look, $2 task, $3 worker, $4 claimed at)
SELECT look.answer, look.answered_at, statement_timestamp() AS now, task.status,
       task.status = 'RUNNING' AND task.claimed_by_worker_id = $3 AND task.claimed_at = $4 AS holds,
       statement_timestamp() - NULLIF(NULLIF(GREATEST(
           (SELECT snapshot_at FROM horsies_worker_states WHERE worker_id = $3 ORDER BY snapshot_at DESC LIMIT 1),
           (SELECT sent_at FROM horsies_heartbeats
             WHERE task_id = $2 AND role = 'runner' ORDER BY sent_at DESC LIMIT 1)), 'infinity'), '-infinity') AS silent_for
  FROM (SELECT) one
  LEFT JOIN horsies_looks look ON look.look_id = $1
  LEFT JOIN horsies_tasks task ON task.id = $2
