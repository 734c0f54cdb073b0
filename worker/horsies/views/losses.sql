-- name: view_losses
-- views/losses.py; reads only
-- ($1 for how long acknowledged ones are returned, NULL for ever; $2 rows read at most; $3 ids of each kind)
-- For each worker the unacknowledged losses, or else the acknowledged ones. Rows are few: one for 200 tasks of a dead
-- worker.
WITH lost AS (
    SELECT loss.id, loss.worker_id, loss.taken_at, loss.failed, loss.retried, loss.returned, done.acted_at, done.by
      FROM (SELECT id, worker_id, taken_at, failed, retried, returned FROM horsies_worker_losses
             ORDER BY taken_at DESC, id DESC LIMIT $2::integer) loss
      LEFT JOIN LATERAL (
            SELECT acted_at, os_user || '@' || os_host AS by
              FROM horsies_operator_actions action
             WHERE action.target_id = loss.worker_id AND acted_at >= loss.taken_at AND /* knows_of_death */
             ORDER BY id DESC LIMIT 1) done ON true
), told AS (
    SELECT lost.*, lost.acted_at IS NULL AS open,
           rank() OVER (PARTITION BY worker_id ORDER BY (acted_at IS NULL) DESC) = 1 AS first
      FROM lost
     WHERE acted_at IS NULL OR $1::interval IS NULL OR acted_at >= statement_timestamp() - $1::interval
)
SELECT worker_id, max(taken_at) AS taken_at, newest.snapshot_at, sum(cardinality(failed))::integer AS failed,
       sum(cardinality(retried))::integer AS retried, sum(cardinality(returned))::integer AS returned,
       -- Separate arrays, because two-dimensional arrays cannot be joined.
       (ARRAY(SELECT each.id FROM told mine
               CROSS JOIN LATERAL (SELECT unnest(failed) UNION ALL SELECT unnest(retried) UNION ALL SELECT unnest(returned))
                          AS each (id)
               WHERE mine.worker_id = told.worker_id AND mine.first ORDER BY mine.id LIMIT $3::integer)) AS ids,
       max(acted_at) AS acknowledged_at, max(by) AS acknowledged_by
  FROM told
  LEFT JOIN LATERAL (
        -- By both columns, as in `order_workers`.
        SELECT worker_id AS of_worker, snapshot_at FROM horsies_worker_states WHERE worker_id >= told.worker_id
         ORDER BY worker_id, snapshot_at DESC LIMIT 1) newest ON newest.of_worker = told.worker_id
 WHERE first
 GROUP BY worker_id, newest.snapshot_at
 ORDER BY worker_id
