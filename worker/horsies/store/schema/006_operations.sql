-- what manual operations and sweeps remember, and the order in which people page through tasks, run once by upgrade.py

-- A task that an operator ran again as a new one says of which it is the copy.
ALTER TABLE horsies_tasks ADD COLUMN IF NOT EXISTS rerun_of varchar(36);

-- Newest first, page by page, whatever the ids look like (upstream's are random). No update changes either column, and new
-- rows are appended at its end.
-- It costs a send 50 to 130 bytes of WAL (1 240 to 1 350 without, in hundreds 850) and no time that can be measured. But as
-- no update of a status is heap-only, claim, start and finish write it again: 380 to 490 bytes of WAL per task (4 100 without,
-- in batches of 50 3 030), and in batches 6 to 12 % of the speed where no disk is waited for.
CREATE INDEX IF NOT EXISTS ix_horsies_tasks_created ON horsies_tasks (created_at, id);
-- The same for failures, which a walk through a million that went well would take a second to find. Only what ends badly is
-- in it.
CREATE INDEX IF NOT EXISTS ix_horsies_tasks_unsuccessful_created
    ON horsies_tasks (created_at, id) WHERE status IN ('FAILED', 'CANCELLED', 'EXPIRED');
-- "has this been run again?"; most tasks are no copy
CREATE INDEX IF NOT EXISTS ix_horsies_tasks_rerun_of ON horsies_tasks (rerun_of) WHERE rerun_of IS NOT NULL;

-- A worker without a row has no orders.
CREATE TABLE IF NOT EXISTS horsies_worker_orders (
    worker_id      varchar(255) PRIMARY KEY,
    draining_since timestamptz,
    ordered_by     text,
    reason         text,
    updated_at     timestamptz  NOT NULL DEFAULT now()
);

-- When each sweep ran last, who ran it and what it did. Whoever moves ran_at forward has the duty for this time.
CREATE TABLE IF NOT EXISTS horsies_sweep_state (
    sweep       text         PRIMARY KEY,
    ran_at      timestamptz  NOT NULL,
    worker_id   varchar(255),
    interval_ms integer,
    report      jsonb
);

-- The names that a worker registers: without them nobody can tell why a task waits for ever.
ALTER TABLE horsies_worker_states
    ADD COLUMN IF NOT EXISTS task_names      text[],
    ADD COLUMN IF NOT EXISTS horsies_version text,
    -- It claims nothing any more, by order or because it stops: what horsies_worker_orders wants, this says was done.
    ADD COLUMN IF NOT EXISTS draining        boolean;

-- Retention. Heartbeats need no index for it: they are pruned in the order of their ids, which is that of their times; 250 000
-- old ones of 500 000 go in 0.64 s. One on sent_at would cost each beat a quarter to a third more (3.9 µs instead of 3.0, and
-- 6.3 instead of 5.2 in a second, busier run; 455 bytes of WAL instead of 388).
-- Final tasks without a time of their end, as upstream leaves those it cancels; created_at never changes, so that updates of
-- other rows stay as cheap as they are. A row with such a time is in no entry.
CREATE INDEX IF NOT EXISTS ix_horsies_tasks_untimed
    ON horsies_tasks (created_at, id)
    WHERE status IN ('COMPLETED', 'FAILED', 'CANCELLED', 'EXPIRED') AND COALESCE(completed_at, failed_at) IS NULL;
CREATE INDEX IF NOT EXISTS ix_horsies_workflows_finished
    ON horsies_workflows ((COALESCE(completed_at, updated_at, created_at)))
    WHERE status IN ('COMPLETED', 'FAILED', 'CANCELLED');
