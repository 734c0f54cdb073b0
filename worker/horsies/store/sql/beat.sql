-- leases.beat; the token and RUNNING ($1 worker, $2 tasks, $3 claimed at, $4 pids of the children, $5 host name)
WITH running AS MATERIALIZED (
    SELECT token.id, token.pid, token.number
      FROM unnest($2::text[], $3::timestamptz[], $4::integer[]) WITH ORDINALITY AS token (id, claimed_at, pid, number)
      JOIN horsies_tasks task ON task.id = token.id
     WHERE task.id = ANY ($2)
       AND CASE WHEN task.status = 'RUNNING' AND task.claimed_by_worker_id = $1
                THEN task.claimed_at = token.claimed_at END
), beats AS (
    INSERT INTO horsies_heartbeats (task_id, sender_id, role, sent_at, hostname, pid)
    SELECT id, $1 || ':' || pid, 'runner', statement_timestamp(), $5, pid FROM running
)
SELECT number FROM running
