-- operations/queues.py; reads only
-- ($1 queues, $2 how old the newest snapshot of a living worker may be in s, $3 up to how many that wait are counted)
SELECT asked.queue, state.paused_at, state.paused_by, state.reason, waits.due, waits.later, flies.claimed, flies.running,
       (SELECT count(DISTINCT worker_id) FROM horsies_worker_states
         WHERE snapshot_at > statement_timestamp() - $2::float8 * interval '1 s' AND asked.queue = ANY (queues)) AS workers
  FROM unnest($1::text[]) WITH ORDINALITY AS asked (queue, number)
  LEFT JOIN horsies_queue_state state ON state.queue_name = asked.queue
 CROSS JOIN LATERAL (
        SELECT count(*) FILTER (WHERE enqueued_at <= statement_timestamp()) AS due,
               count(*) FILTER (WHERE enqueued_at > statement_timestamp()) AS later
          FROM (SELECT enqueued_at FROM horsies_tasks WHERE status = 'PENDING' AND queue_name = asked.queue
                 LIMIT $3) first_ones) waits
 CROSS JOIN LATERAL (
        SELECT count(*) FILTER (WHERE status = 'CLAIMED') AS claimed, count(*) FILTER (WHERE status = 'RUNNING') AS running
          FROM horsies_tasks WHERE status IN ('CLAIMED', 'RUNNING') AND queue_name = asked.queue) flies
 ORDER BY asked.number
