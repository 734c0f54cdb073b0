-- name: snapshot_worker
-- worker_states.write_snapshot, every 5 s; nothing guards it: each row is new
INSERT INTO horsies_worker_states (
    worker_id, hostname, pid, processes, max_claim_batch, max_claim_per_worker, cluster_wide_cap, queues,
    queue_priorities, queue_max_concurrency, recovery_config, tasks_running, tasks_claimed, memory_usage_mb,
    children_memory_mb, memory_percent, cpu_percent, worker_started_at, task_names, horsies_version,
    draining, app_version, container_memory_mb, container_limit_mb, largest_child_mb, largest_child_pid,
    child_limit_mb
)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24,
        $25, $26, $27)

-- name: sample_queues
-- worker_states.sample_queues, every 5 s by each worker; of many workers the first one in each ten seconds stores
-- ($1 tasks counted at most, an equal share for each queue)
-- Waiting as in views/cluster.py: due and PENDING, or CLAIMED. If it has been done, nothing but the primary key is read.
WITH RECURSIVE moment AS MATERIALIZED (
    SELECT to_timestamp(floor(extract(epoch FROM statement_timestamp()) / 10) * 10) AS at
), is_due AS MATERIALIZED (
    SELECT at FROM moment
     WHERE NOT EXISTS (SELECT FROM horsies_queue_samples WHERE sampled_at = moment.at AND queue_name = '')
), queue AS (
    (SELECT queue_name FROM horsies_tasks WHERE EXISTS (SELECT FROM is_due) AND status = 'PENDING'
      ORDER BY queue_name, priority, enqueued_at LIMIT 1)
     UNION ALL
    SELECT next.queue_name
      FROM queue
     CROSS JOIN LATERAL (SELECT queue_name FROM horsies_tasks
                          WHERE status = 'PENDING' AND queue_name > queue.queue_name
                          ORDER BY queue_name, priority, enqueued_at LIMIT 1) next
), share AS (
    SELECT $1::bigint / GREATEST(count(*), 1) + 1 AS most FROM queue
), counted AS (
    SELECT queue_name, due.number
      FROM queue
     CROSS JOIN LATERAL (
            SELECT count(*) FILTER (WHERE enqueued_at <= statement_timestamp()) AS number
              FROM (SELECT enqueued_at FROM horsies_tasks WHERE status = 'PENDING' AND queue_name = queue.queue_name
                     LIMIT (SELECT most FROM share)) pending) due
     UNION ALL
    SELECT queue_name, count(*) FROM horsies_tasks
     WHERE EXISTS (SELECT FROM is_due) AND status = 'CLAIMED' AND status IN /* tasks_in_flight */
     GROUP BY queue_name
), waits AS (
    SELECT queue_name, sum(number)::integer AS number FROM counted WHERE number > 0 GROUP BY queue_name
)
INSERT INTO horsies_queue_samples (sampled_at, queue_name, waiting)
SELECT at, queue_name, number FROM is_due CROSS JOIN waits
 UNION ALL
SELECT at, '', (SELECT COALESCE(sum(number), 0) FROM waits)::integer FROM is_due
    ON CONFLICT DO NOTHING

-- name: sweep_election
-- worker_states.elect; moves ran_at forward, and only if it is an interval old: of many callers, one is elected
-- ($1 sweep, $2 worker, $3 interval in ms)
WITH won AS (
    INSERT INTO horsies_sweep_state AS state (sweep, ran_at, worker_id, interval_ms)
    SELECT $1, statement_timestamp(), $2, $3::integer
           -- A call that comes too early must only read: a conflicting insert locks the row and writes WAL even if it
           -- loses.
     WHERE NOT EXISTS (SELECT FROM horsies_sweep_state
                        WHERE sweep = $1 AND ran_at > statement_timestamp() - $3::integer * interval '1 ms'
                          AND ran_at <= statement_timestamp())
        ON CONFLICT (sweep) DO UPDATE
       SET ran_at = excluded.ran_at, worker_id = excluded.worker_id, interval_ms = excluded.interval_ms
     WHERE state.ran_at <= excluded.ran_at - $3::integer * interval '1 ms'
           -- A time in the future was left by a wrong server clock; without this no worker would sweep until then.
           -- Another worker's statement may have begun a moment after this one, hence the minute.
        OR state.ran_at > excluded.ran_at + interval '1 min'
    RETURNING sweep
)
SELECT EXISTS (SELECT FROM won) AS won,
       (SELECT date_part('epoch', LEAST(ran_at, statement_timestamp())) + $3::integer / 1000.0::float8
               - date_part('epoch', statement_timestamp())
          FROM horsies_sweep_state WHERE sweep = $1) AS due_in_s

-- name: sweep_report
-- worker_states.write_report; the report: still the elected worker; each row of horsies_sweeps is new
-- ($1 sweep, $2 worker, $3 report)
WITH history AS (
    INSERT INTO horsies_sweeps (worker_id, expired, repairs, workflows)
    SELECT $2, COALESCE(expired, 0), COALESCE(repairs, 0), COALESCE(workflows, 0)
      FROM jsonb_to_record($3::jsonb) AS done (expired integer, repairs integer, workflows integer)
     WHERE expired > 0 OR repairs > 0
)
UPDATE horsies_sweep_state SET report = $3::jsonb WHERE sweep = $1 AND worker_id = $2
