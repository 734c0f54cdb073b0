-- what is remembered of faults, run once by upgrade.py

-- What sweeps and operators took from workers that had stopped giving signs of life, at most 200 tasks in a row of one worker.
-- A task that goes back to the queue keeps no trace of the worker that held it, and a worker whose tasks are gone looks like one
-- that was stopped. Rows are only added, so that two sweeps do not wait for each other. What was taken before the newest applied
-- 'acknowledge' or 'recover' of the worker in horsies_operator_actions is acknowledged.
CREATE TABLE IF NOT EXISTS horsies_worker_losses (
    id        bigint       GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    worker_id varchar(255) NOT NULL,
    taken_at  timestamptz  NOT NULL DEFAULT now(),
    failed    text[]       NOT NULL DEFAULT '{}',
    retried   text[]       NOT NULL DEFAULT '{}',
    returned  text[]       NOT NULL DEFAULT '{}'
);
CREATE INDEX IF NOT EXISTS ix_horsies_worker_losses_latest ON horsies_worker_losses (taken_at, id);
-- Tasks that failed as their worker died, newest first; no other task is in it.
CREATE INDEX IF NOT EXISTS ix_horsies_tasks_crashed
    ON horsies_tasks (failed_at) WHERE status = 'FAILED' AND error_code = 'WORKER_CRASHED';
