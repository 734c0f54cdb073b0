-- views/queues.py; reads only: who serves which queues
-- ($1 how old the newest snapshot of a living worker may be, in s; $2 workers that have the order to drain)
SELECT own.*
       -- Tables made by upstream lack the column: a name that the table has not is then found here.
  FROM (VALUES (NULL::boolean)) AS absent (draining)
 CROSS JOIN LATERAL (
        SELECT DISTINCT ON (worker_id) worker_id, queues::text[], queue_priorities, queue_max_concurrency, snapshot_at,
               COALESCE(draining, false) OR worker_id = ANY ($2::text[]) AS draining
          FROM horsies_worker_states
         WHERE snapshot_at > statement_timestamp() - $1::float8 * interval '1 s'
         ORDER BY worker_id, snapshot_at DESC) own
