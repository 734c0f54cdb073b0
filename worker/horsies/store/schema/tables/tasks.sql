-- tasks, their attempts and heartbeats; a part of the schema, run by upgrade.py

CREATE TABLE IF NOT EXISTS horsies_tasks (
    id                      varchar(36)  PRIMARY KEY,
    task_name               varchar(255) NOT NULL,
    queue_name              varchar(100) NOT NULL,
    priority                integer      NOT NULL DEFAULT 100,
    args                    text,
    kwargs                  text,
    status                  varchar(9)   NOT NULL DEFAULT 'PENDING',
    sent_at                 timestamptz,
    enqueued_at             timestamptz  NOT NULL DEFAULT now(),
    is_workflow_task        boolean      NOT NULL DEFAULT false,
    claimed_at              timestamptz,
    started_at              timestamptz,
    completed_at            timestamptz,
    failed_at               timestamptz,
    result                  text,
    failed_reason           text,
    error_code              text,
    claimed                 boolean      NOT NULL DEFAULT false,
    claimed_by_worker_id    varchar(255),
    good_until              timestamptz,
    retry_count             integer      NOT NULL DEFAULT 0,
    max_retries             integer      NOT NULL DEFAULT 0,
    next_retry_at           timestamptz,
    task_options            text,
    worker_pid              integer,
    worker_hostname         varchar(255),
    worker_process_name     varchar(255),
    claim_expires_at        timestamptz,
    finalizing_at           timestamptz,
    finalizing_by_worker_id text,
    enqueue_sha             varchar(64)  NOT NULL DEFAULT 'legacy-pre-sha',
    created_at              timestamptz  NOT NULL DEFAULT now(),
    updated_at              timestamptz  NOT NULL DEFAULT now(),
    -- At most one live task of a name has a key; NULL for most tasks.
    unique_key              varchar(255),
    -- The task of which an operator made this copy, to run it again.
    rerun_of                varchar(36),
    -- Since when the pause of its workflow keeps this task in the queue. Written by the triggers on workflows. NULL
    -- does not mean that it is not paused: a task that was locked at the pause has none, so a claim still calls
    -- horsies_is_held.
    workflow_paused_at      timestamptz,
    -- claimed_at of the newest claim that has no place under the caps before it starts: that of a worker that
    -- prefetches. Any other claim counts, so both kinds share one cap. The mark is never removed: claimed_at of a later
    -- claim differs.
    uncounted_claim_at      timestamptz
);

CREATE TABLE IF NOT EXISTS horsies_task_attempts (
    id                  bigserial    PRIMARY KEY,
    task_id             varchar(36)  NOT NULL REFERENCES horsies_tasks (id) ON DELETE CASCADE,
    attempt             integer      NOT NULL,
    outcome             varchar(32)  NOT NULL,
    will_retry          boolean      NOT NULL DEFAULT false,
    started_at          timestamptz  NOT NULL,
    finished_at         timestamptz  NOT NULL,
    error_code          text,
    error_message       text,
    failed_reason       text,
    worker_id           varchar(255),
    worker_hostname     varchar(255),
    worker_pid          integer,
    worker_process_name varchar(255),
    created_at          timestamptz  NOT NULL DEFAULT now(),
    output              text,
    -- From when it was due until it started. NULL: not known, as a worker of version 15 or earlier wrote the row.
    waited_ms           integer,
    CONSTRAINT ck_horsies_task_attempts_outcome CHECK (outcome IN ('COMPLETED', 'FAILED', 'WORKER_FAILURE'))
);

CREATE TABLE IF NOT EXISTS horsies_heartbeats (
    id        bigserial    PRIMARY KEY,
    task_id   varchar(36)  NOT NULL,
    sender_id varchar(255) NOT NULL,
    role      varchar(20)  NOT NULL,
    sent_at   timestamptz  NOT NULL DEFAULT now(),
    hostname  varchar(255),
    pid       integer
);

-- How far a run has come, as its code reports: a row for each run that reports, written at most once a second. By the
-- start of the run, which its attempt has too: what a worker writes that has lost the task is of its own run, and a
-- retry begins with nothing. No foreign key: it would cost each deleted task a search here, and prevent a TRUNCATE of the
-- tasks. Deleted with its task. Half of each page is free, so that all updates are heap-only.
CREATE TABLE IF NOT EXISTS horsies_progress (
    task_id     varchar(36)      NOT NULL,
    started_at  timestamptz      NOT NULL,
    done        double precision NOT NULL,
    -- NULL: unknown
    total       double precision,
    unit        varchar(24),
    -- per second, of late; NULL before the second change
    rate        double precision,
    -- the usual time between two changes, in s
    gap_s       double precision,
    reported_at timestamptz      NOT NULL,
    PRIMARY KEY (task_id, started_at)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);

-- How many sends found a live task with their name and unique key, and stored nothing. A row for each session of the
-- server that counted, so that no send waits for another, not even for a caller's transaction that stays open. The row
-- of the task is not locked either: a worker could not claim it meanwhile. Eight producers of one key send at 85 to 95 %
-- of the speed without a count; at 21 to 37 % where all count in one row and each commit waits for the disk. No foreign
-- key, and deleted with its task, as above.
CREATE TABLE IF NOT EXISTS horsies_duplicate_sends (
    task_id varchar(36) NOT NULL,
    backend integer     NOT NULL,
    sends   bigint      NOT NULL,
    last_at timestamptz NOT NULL,
    PRIMARY KEY (task_id, backend)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_cost_delay = 0);

-- fillfactor 80 leaves room on the page for the next version of a row: of lease renewals and finalizing marks 66 % are
-- heap-only instead of 10 %, and batches write a fifth less WAL (3 060 instead of 3 800 bytes per task). 70 would make
-- it 84 %, for a table 14 % larger. Vacuum after 1 % instead of 20 %: a million finished rows would otherwise allow 200
-- 000 dead entries at the start of ix_horsies_tasks_ready. Without a cost delay, because the dead rows are young and
-- their pages in memory. Analyze after 2 %: the share of each status decides which index a plan uses.
ALTER TABLE horsies_tasks SET (
    fillfactor = 80,
    autovacuum_vacuum_scale_factor = 0.01,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0,
    autovacuum_vacuum_insert_scale_factor = 0.02,
    autovacuum_analyze_scale_factor = 0.02
);
-- The oldest rows are deleted every hour while new ones arrive: with a vacuum after each, the table stays at a day's
-- size.
ALTER TABLE horsies_heartbeats SET (
    autovacuum_vacuum_scale_factor = 0.01,
    autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0,
    autovacuum_vacuum_insert_scale_factor = 0.02
);

-- Nearly all indexes of tasks are partial: each update of a status writes every index that contains the row. A status
-- must therefore be a literal in the statement: a generic plan of `status = $1` can use none of them. claim_expires_at,
-- finalizing_at and updated_at are in no index and in no predicate: lease renewals stay heap-only.

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
-- COALESCE(completed_at, failed_at) IS NULL. The first column is not status: a condition that only repeats the
-- predicate is dropped before the plan is made, so "terminal and older than 30 days" could not use the index and would
-- read the whole table.
CREATE INDEX IF NOT EXISTS ix_horsies_tasks_finished
    ON horsies_tasks ((COALESCE(completed_at, failed_at)))
    WHERE status IN ('COMPLETED', 'FAILED', 'CANCELLED', 'EXPIRED');
-- The newest ended tasks of each name: usual durations, statistics by name. Without it a task that runs once an hour
-- among 100 in a second is not found. It costs a task 85 bytes of WAL when it ends, 2 % of what it writes from its claim
-- on, and of the server's time 1 % one at a time and 2 to 4 % in batches of 50. In a CASE, here and in the queries:
-- otherwise a plan might read all tasks of a day along ix_horsies_tasks_finished to find those of one name.
CREATE INDEX IF NOT EXISTS ix_horsies_tasks_finished_by_name
    ON horsies_tasks (task_name, (COALESCE(completed_at, failed_at)))
    WHERE CASE WHEN status IN ('COMPLETED', 'FAILED', 'CANCELLED', 'EXPIRED')
               THEN COALESCE(completed_at, failed_at) IS NOT NULL END;
-- failures newest first, and how many of each kind, among many more completed tasks
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
-- A key is free again as soon as its task is final. The key comes first, because lists are filtered by it alone.
CREATE UNIQUE INDEX IF NOT EXISTS uq_horsies_tasks_key_and_name
    ON horsies_tasks (unique_key, task_name)
    WHERE unique_key IS NOT NULL AND status IN ('PENDING', 'CLAIMED', 'RUNNING');
-- Lists of tasks, newest first, page by page. Not by id, which is random in upstream's rows. No update changes either
-- column, and new rows are appended at its end. It costs a send 50 to 130 bytes of WAL (1 240 to 1 350 without, in
-- hundreds 850) and no measurable time. But as no update of a status is heap-only, claim, start and finish write it
-- again: 380 to 490 bytes of WAL per task (4 100 without, in batches of 50 3 030), and in batches 6 to 12 % of the
-- speed if no disk is waited for.
CREATE INDEX IF NOT EXISTS ix_horsies_tasks_created ON horsies_tasks (created_at, id);
-- The same for failures, for which a scan through a million completed tasks would take a second. Only failed, cancelled
-- and expired tasks are in it.
CREATE INDEX IF NOT EXISTS ix_horsies_tasks_unsuccessful_created
    ON horsies_tasks (created_at, id) WHERE status IN ('FAILED', 'CANCELLED', 'EXPIRED');
-- "has this been run again?"; most tasks are no copy
CREATE INDEX IF NOT EXISTS ix_horsies_tasks_rerun_of ON horsies_tasks (rerun_of) WHERE rerun_of IS NOT NULL;
-- Final tasks without a time of their end, as upstream leaves those that it cancels. A task with such a time has no
-- entry, and created_at never changes: so it costs the updates of other tasks nothing.
CREATE INDEX IF NOT EXISTS ix_horsies_tasks_untimed
    ON horsies_tasks (created_at, id)
    WHERE status IN ('COMPLETED', 'FAILED', 'CANCELLED', 'EXPIRED') AND COALESCE(completed_at, failed_at) IS NULL;
-- The first due tasks of one name. In ix_horsies_tasks_ready they come after all tasks that cannot run at this moment:
-- 100 000 tasks of a name that no worker knows reduced 1 455 tasks/s to 32. An entry is written when a task is sent or
-- requeued, not by claim, start or finish. In a CASE, here and in the queries: with statistics from a quiet hour all
-- indexes of waiting tasks look empty, and a plan might use ix_horsies_tasks_ready instead, whose predicate cannot be
-- proved from a CASE.
CREATE INDEX IF NOT EXISTS ix_horsies_tasks_ready_by_name
    ON horsies_tasks (queue_name, task_name, priority, (GREATEST(enqueued_at, next_retry_at)), id)
    WHERE CASE WHEN status = 'PENDING' THEN good_until IS NULL AND workflow_paused_at IS NULL END;
-- Tasks with a deadline separately: only among these the first ones may be past it.
CREATE INDEX IF NOT EXISTS ix_horsies_tasks_ready_until
    ON horsies_tasks (queue_name, task_name, priority, (GREATEST(enqueued_at, next_retry_at)), id)
    WHERE CASE WHEN status = 'PENDING' THEN good_until IS NOT NULL AND workflow_paused_at IS NULL END;
-- Tasks that failed because their worker died, newest first; it contains no other tasks.
CREATE INDEX IF NOT EXISTS ix_horsies_tasks_crashed
    ON horsies_tasks (failed_at) WHERE status = 'FAILED' AND error_code = 'WORKER_CRASHED';

-- A constraint, for ON CONFLICT ON CONSTRAINT of other programs: of a new index, of that of our versions up to 13, or
-- as upstream made it.
CREATE UNIQUE INDEX IF NOT EXISTS uq_horsies_task_attempts_task_attempt
    ON horsies_task_attempts (task_id, attempt);
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_constraint
                    WHERE conrelid = 'horsies_task_attempts'::regclass AND conname = 'uq_horsies_task_attempts_task_attempt')
    THEN
        ALTER TABLE horsies_task_attempts ADD CONSTRAINT uq_horsies_task_attempts_task_attempt
            UNIQUE USING INDEX uq_horsies_task_attempts_task_attempt;
    END IF;
END
$$;
CREATE INDEX IF NOT EXISTS idx_horsies_task_attempts_error_code
    ON horsies_task_attempts (error_code) WHERE error_code IS NOT NULL;
CREATE INDEX IF NOT EXISTS idx_horsies_task_attempts_finished_at_desc
    ON horsies_task_attempts (finished_at DESC);

CREATE INDEX IF NOT EXISTS idx_horsies_heartbeats_task_role_sent
    ON horsies_heartbeats (task_id, role, sent_at DESC);
-- Retention. Heartbeats need no index for it: they are pruned in the order of their ids, which is that of their times;
-- 250 000 old ones of 500 000 are deleted in 0.64 s. One on sent_at would make each beat a quarter to a third more
-- expensive (3.9 µs instead of 3.0, and 6.3 instead of 5.2 in a second, busier run; 455 bytes of WAL instead of 388).

-- This function and trigger are part of the contract with upstream, whose text names no schema: the reason is at the end
-- of this schema. This function and the next have no search_path, which would cost each send 9 µs of its 170, but name
-- everything with its schema. A channel name has at most 63 bytes, so a queue name of more than 52 bytes fails here, in
-- the insert.
CREATE OR REPLACE FUNCTION horsies_notify_task_changes() RETURNS trigger AS $$
BEGIN
    IF TG_OP OPERATOR(pg_catalog.=) 'INSERT' AND NEW.status OPERATOR(pg_catalog.=) 'PENDING' THEN
        PERFORM pg_catalog.pg_notify('task_new', NEW.id);
        PERFORM pg_catalog.pg_notify('task_queue_' OPERATOR(pg_catalog.||) NEW.queue_name, NEW.id);
    ELSIF TG_OP OPERATOR(pg_catalog.=) 'UPDATE' AND OLD.status OPERATOR(pg_catalog.<>) NEW.status THEN
        IF NEW.status OPERATOR(pg_catalog.=) ANY ('{COMPLETED,FAILED,CANCELLED,EXPIRED}') THEN
            PERFORM pg_catalog.pg_notify('task_done', NEW.id);
        END IF;
    END IF;
    RETURN NEW;
END;
$$ LANGUAGE plpgsql;

CREATE OR REPLACE TRIGGER horsies_task_notify_trigger
    AFTER INSERT OR UPDATE ON horsies_tasks
    FOR EACH ROW EXECUTE FUNCTION horsies_notify_task_changes();

CREATE OR REPLACE FUNCTION horsies_notify_task_status() RETURNS trigger AS $$
BEGIN
    IF TG_OP OPERATOR(pg_catalog.=) 'INSERT' OR OLD.status OPERATOR(pg_catalog.<>) NEW.status THEN
        PERFORM pg_catalog.pg_notify('horsies_task_status', NEW.id);
    END IF;
    RETURN NEW;
END;
$$ LANGUAGE plpgsql;

CREATE OR REPLACE TRIGGER horsies_task_status_notify_trigger
    AFTER INSERT OR UPDATE ON horsies_tasks
    FOR EACH ROW EXECUTE FUNCTION horsies_notify_task_status();
