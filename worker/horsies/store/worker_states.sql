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
