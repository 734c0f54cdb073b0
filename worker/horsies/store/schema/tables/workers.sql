-- snapshots and losses of workers, and when sweeps ran; a part of the schema, run by upgrade.py

CREATE TABLE IF NOT EXISTS horsies_worker_states (
    id                    bigserial    PRIMARY KEY,
    worker_id             varchar(255) NOT NULL,
    snapshot_at           timestamptz  NOT NULL DEFAULT now(),
    hostname              varchar(255) NOT NULL,
    pid                   integer      NOT NULL,
    processes             integer      NOT NULL,
    max_claim_batch       integer      NOT NULL,
    max_claim_per_worker  integer      NOT NULL,
    cluster_wide_cap      integer,
    queues                varchar[]    NOT NULL,
    queue_priorities      jsonb,
    queue_max_concurrency jsonb,
    recovery_config       jsonb,
    tasks_running         integer      NOT NULL DEFAULT 0,
    tasks_claimed         integer      NOT NULL DEFAULT 0,
    memory_usage_mb       double precision,
    children_memory_mb    double precision,
    memory_percent        double precision,
    cpu_percent           double precision,
    worker_started_at     timestamptz  NOT NULL,
    -- The names that a worker registers: without them no screen can explain why a task waits for ever.
    task_names            text[],
    horsies_version       text,
    -- It claims nothing any more, by order or because it stops: horsies_worker_orders is the order, this is the state.
    draining              boolean,
    -- The version of the application, as its configuration or the command line names it.
    app_version           text,
    -- Memory in use and its limit, of the control group that has least left; NULL without a limit, and elsewhere than on
    -- Linux.
    container_memory_mb   double precision,
    container_limit_mb    double precision,
    -- The child process that uses most, and the limit of each (RLIMIT_AS): where there is one, the address space counts,
    -- which is what it limits.
    largest_child_mb      double precision,
    largest_child_pid     integer,
    child_limit_mb        double precision
);

-- The newest row of each worker and its load over time. To get the newest row of one that may have died long ago, order
-- by both columns (WHERE worker_id >= x ORDER BY worker_id, snapshot_at DESC LIMIT 1): with the time alone, the plan
-- reads back through the rows of all others.
CREATE INDEX IF NOT EXISTS ix_horsies_worker_states_worker_latest
    ON horsies_worker_states (worker_id, snapshot_at DESC) INCLUDE (tasks_running, tasks_claimed);
-- The four documented indexes, for other programs that read the table. The engine needs snapshot_at alone; a worker
-- inserts one row every 5 s and updates none, and the other three add 2 µs and 195 bytes of WAL to it (4.6 µs and 560
-- bytes instead of 2.7 and 365).
CREATE INDEX IF NOT EXISTS ix_horsies_worker_states_worker_id
    ON horsies_worker_states (worker_id);
CREATE INDEX IF NOT EXISTS ix_horsies_worker_states_snapshot_at
    ON horsies_worker_states (snapshot_at);
CREATE INDEX IF NOT EXISTS ix_horsies_worker_states_tasks_running
    ON horsies_worker_states (tasks_running);
CREATE INDEX IF NOT EXISTS ix_horsies_worker_states_tasks_claimed
    ON horsies_worker_states (tasks_claimed);

CREATE OR REPLACE FUNCTION horsies_notify_worker_state() RETURNS trigger AS $$
BEGIN
    PERFORM pg_catalog.pg_notify('horsies_worker_state', NEW.worker_id::text);
    RETURN NEW;
END;
$$ LANGUAGE plpgsql;

CREATE OR REPLACE TRIGGER horsies_worker_state_notify_trigger
    AFTER INSERT OR UPDATE ON horsies_worker_states
    FOR EACH ROW EXECUTE FUNCTION horsies_notify_worker_state();

-- How many tasks waited in each queue at whole ten seconds, and in all of them together (queue ''): the rows of tasks say
-- it of the present only. Queues in which none waited have no row.
CREATE TABLE IF NOT EXISTS horsies_queue_samples (
    sampled_at timestamptz  NOT NULL,
    queue_name varchar(100) NOT NULL,
    waiting    integer      NOT NULL,
    CONSTRAINT horsies_queue_samples_pkey PRIMARY KEY (sampled_at, queue_name),
    CONSTRAINT ck_horsies_queue_samples_times
        CHECK (sampled_at >= pg_catalog.to_timestamp(946684800) AND sampled_at <= pg_catalog.to_timestamp(221845392000))
);

-- Tasks that sweeps and operators recovered from lost workers, at most 200 in a row of one worker. A requeued task
-- keeps no trace of its former worker, and a worker without tasks looks like one that was stopped. Rows are only added,
-- so that two sweeps do not wait for each other. Losses before the newest applied 'acknowledge' or 'recover' of the
-- worker in horsies_operator_actions are acknowledged.
CREATE TABLE IF NOT EXISTS horsies_worker_losses (
    id        bigint       GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    worker_id varchar(255) NOT NULL,
    taken_at  timestamptz  NOT NULL DEFAULT now(),
    failed    text[]       NOT NULL DEFAULT '{}',
    retried   text[]       NOT NULL DEFAULT '{}',
    returned  text[]       NOT NULL DEFAULT '{}'
);
CREATE INDEX IF NOT EXISTS ix_horsies_worker_losses_latest ON horsies_worker_losses (taken_at, id);

-- When each sweep ran last, which worker ran it and its report. The worker that moves ran_at forward runs the sweep
-- this time.
CREATE TABLE IF NOT EXISTS horsies_sweep_state (
    sweep       text         PRIMARY KEY,
    ran_at      timestamptz  NOT NULL,
    worker_id   varchar(255),
    interval_ms integer,
    report      jsonb
);

-- The sweeps that changed something that no other row tells: tasks that expired, and workflows that were repaired.
CREATE TABLE IF NOT EXISTS horsies_sweeps (
    id        bigint       GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    swept_at  timestamptz  NOT NULL DEFAULT now(),
    worker_id varchar(255),
    expired   integer      NOT NULL,
    repairs   integer      NOT NULL,
    workflows integer      NOT NULL
);
CREATE INDEX IF NOT EXISTS ix_horsies_sweeps_latest ON horsies_sweeps (swept_at, id);
