-- the documented indexes and how tables are stored and vacuumed, run by upgrade.py (see tests/bench/test_index_profiles.py)

-- Upstream indexes queue_name, status, claimed, good_until, next_retry_at and claim_expires_at of every task, finished or
-- not. No update that changes `status` can be heap-only, so each of the three updates in the life of a task writes all of
-- them again. The indexes below hold a row only in the states in which somebody looks it up by that column.
-- Claim, start and finish with attempt row, over 50 000 finished tasks, full indexes against these: batch 1: 1 380 and
-- 1 430 tasks/s, batch 10: 8 000 and 9 100, batch 50: 14 800 and 18 200; 22 to 24 % less WAL in each.
-- A status must therefore stand in the statement as a literal: a generic plan of `status = $1` can use none of them.
-- claim_expires_at, finalizing_at and updated_at are in no index and in no predicate: lease renewals stay heap-only.
DROP INDEX IF EXISTS ix_horsies_tasks_queue_name, ix_horsies_tasks_status, ix_horsies_tasks_claimed,
    ix_horsies_tasks_good_until, ix_horsies_tasks_next_retry_at, ix_horsies_tasks_claim_expires_at;

-- claim: the next tasks of a queue in order; also the depth of a queue
CREATE INDEX IF NOT EXISTS ix_horsies_tasks_ready
    ON horsies_tasks (queue_name, priority, enqueued_at, id) WHERE status = 'PENDING';
-- caps, stale claims, stale runs, expired leases
CREATE INDEX IF NOT EXISTS ix_horsies_tasks_in_flight
    ON horsies_tasks (queue_name, status) WHERE status IN ('CLAIMED', 'RUNNING');
-- beat and lease renewal: what this worker has claimed
CREATE INDEX IF NOT EXISTS ix_horsies_tasks_claimed_by
    ON horsies_tasks (claimed_by_worker_id) WHERE claimed;
-- retention, finished per minute, newest first. A row cancelled by upstream has neither time: it is found by
-- COALESCE(completed_at, failed_at) IS NULL. Not led by status: a condition that says no more than the predicate is dropped
-- before the plan is made, so "terminal and older than 30 days" would find nothing to begin with and read the whole table.
CREATE INDEX IF NOT EXISTS ix_horsies_tasks_finished
    ON horsies_tasks ((COALESCE(completed_at, failed_at)))
    WHERE status IN ('COMPLETED', 'FAILED', 'CANCELLED', 'EXPIRED');
-- failures newest first, and how many of each kind, among many more that went well
CREATE INDEX IF NOT EXISTS ix_horsies_tasks_unsuccessful
    ON horsies_tasks (status, (COALESCE(completed_at, failed_at)))
    WHERE status IN ('FAILED', 'CANCELLED', 'EXPIRED');
-- expire
CREATE INDEX IF NOT EXISTS ix_horsies_tasks_expiring
    ON horsies_tasks (good_until) WHERE status = 'PENDING' AND good_until IS NOT NULL;
-- wake-up for the next retry; next_retry_at stays in the row afterwards, hence the status
CREATE INDEX IF NOT EXISTS ix_horsies_tasks_retrying
    ON horsies_tasks (next_retry_at) WHERE status = 'PENDING' AND next_retry_at IS NOT NULL;
CREATE INDEX IF NOT EXISTS idx_horsies_tasks_error_code
    ON horsies_tasks (error_code) WHERE error_code IS NOT NULL;

-- On a database that upstream has migrated this is a constraint of the same name; ON CONFLICT (task_id, attempt) fits both.
CREATE UNIQUE INDEX IF NOT EXISTS uq_horsies_task_attempts_task_attempt
    ON horsies_task_attempts (task_id, attempt);
CREATE INDEX IF NOT EXISTS idx_horsies_task_attempts_error_code
    ON horsies_task_attempts (error_code) WHERE error_code IS NOT NULL;
CREATE INDEX IF NOT EXISTS idx_horsies_task_attempts_finished_at_desc
    ON horsies_task_attempts (finished_at DESC);

CREATE INDEX IF NOT EXISTS idx_horsies_heartbeats_task_role_sent
    ON horsies_heartbeats (task_id, role, sent_at DESC);

-- The newest row of each worker and its load over time. To get the newest row of one that may be long dead, order by both
-- columns (WHERE worker_id >= x ORDER BY worker_id, snapshot_at DESC LIMIT 1): by the time alone, the plan walks back through
-- the rows of all others.
CREATE INDEX IF NOT EXISTS ix_horsies_worker_states_worker_latest
    ON horsies_worker_states (worker_id, snapshot_at DESC) INCLUDE (tasks_running, tasks_claimed);
-- The four documented ones, for whoever else reads the table. We need snapshot_at alone; a worker inserts one row every 5 s
-- and updates none, and the other three add 2 µs and 195 bytes of WAL to it (4.6 µs and 560 bytes instead of 2.7 and 365).
CREATE INDEX IF NOT EXISTS ix_horsies_worker_states_worker_id
    ON horsies_worker_states (worker_id);
CREATE INDEX IF NOT EXISTS ix_horsies_worker_states_snapshot_at
    ON horsies_worker_states (snapshot_at);
CREATE INDEX IF NOT EXISTS ix_horsies_worker_states_tasks_running
    ON horsies_worker_states (tasks_running);
CREATE INDEX IF NOT EXISTS ix_horsies_worker_states_tasks_claimed
    ON horsies_worker_states (tasks_claimed);

CREATE INDEX IF NOT EXISTS ix_horsies_schedule_state_next_run_at
    ON horsies_schedule_state (next_run_at);

CREATE INDEX IF NOT EXISTS ix_horsies_workflows_status
    ON horsies_workflows (status);
CREATE INDEX IF NOT EXISTS ix_horsies_workflows_parent_workflow_id
    ON horsies_workflows (parent_workflow_id);
CREATE INDEX IF NOT EXISTS ix_horsies_workflows_root_workflow_id
    ON horsies_workflows (root_workflow_id);
CREATE INDEX IF NOT EXISTS ix_horsies_workflows_updated_at
    ON horsies_workflows (updated_at);

CREATE INDEX IF NOT EXISTS ix_horsies_workflow_tasks_workflow_id
    ON horsies_workflow_tasks (workflow_id);
CREATE INDEX IF NOT EXISTS ix_horsies_workflow_tasks_node_id
    ON horsies_workflow_tasks (node_id);
CREATE INDEX IF NOT EXISTS ix_horsies_workflow_tasks_status
    ON horsies_workflow_tasks (status);
CREATE INDEX IF NOT EXISTS ix_horsies_workflow_tasks_task_id
    ON horsies_workflow_tasks (task_id);
CREATE INDEX IF NOT EXISTS ix_horsies_workflow_tasks_sub_workflow_id
    ON horsies_workflow_tasks (sub_workflow_id);
CREATE INDEX IF NOT EXISTS idx_horsies_workflow_tasks_deps
    ON horsies_workflow_tasks USING gin (dependencies);

-- fillfactor 80 leaves room on the page for the next version of a row: of lease renewals and finalizing marks 66 % are
-- heap-only instead of 10 %, and batches write a fifth less WAL (3 060 instead of 3 800 bytes per task). 70 would make it
-- 84 %, for a table 14 % larger.
-- Vacuum after 1 % instead of 20 %: a million finished rows would otherwise allow 200 000 dead entries at the head of
-- ix_horsies_tasks_ready. Without a cost delay, because the dead rows are young and their pages in memory. Analyze after
-- 2 %: the share of each status decides which index a plan takes.
ALTER TABLE horsies_tasks SET (
    fillfactor = 80,
    autovacuum_vacuum_scale_factor = 0.01,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0,
    autovacuum_vacuum_insert_scale_factor = 0.02,
    autovacuum_analyze_scale_factor = 0.02
);
-- The oldest rows are deleted every hour while new ones come: vacuumed in step, the table stays as large as its day.
ALTER TABLE horsies_heartbeats SET (
    autovacuum_vacuum_scale_factor = 0.01,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0,
    autovacuum_vacuum_insert_scale_factor = 0.02
);
