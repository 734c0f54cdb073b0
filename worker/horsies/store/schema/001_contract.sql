-- the documented tables, defaults and notifications on a new database or on one made by upstream, run once by upgrade.py

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
    updated_at              timestamptz  NOT NULL DEFAULT now()
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
    worker_started_at     timestamptz  NOT NULL
);

CREATE TABLE IF NOT EXISTS horsies_schedule_state (
    schedule_name varchar(255) PRIMARY KEY,
    last_run_at   timestamptz,
    next_run_at   timestamptz,
    last_task_id  varchar(36),
    run_count     integer      NOT NULL DEFAULT 0,
    config_hash   varchar(64),
    updated_at    timestamptz  NOT NULL DEFAULT now()
);

CREATE TABLE IF NOT EXISTS horsies_workflows (
    id                 varchar(36)  PRIMARY KEY,
    name               varchar(255) NOT NULL,
    status             varchar(50)  NOT NULL,
    on_error           varchar(50)  NOT NULL DEFAULT 'fail',
    output_task_index  integer,
    success_policy     jsonb,
    result             text,
    error              text,
    definition_key     varchar(255),
    parent_workflow_id varchar(36)  REFERENCES horsies_workflows (id) ON DELETE CASCADE,
    parent_task_index  integer,
    depth              integer      NOT NULL DEFAULT 0,
    root_workflow_id   varchar(36),
    sent_at            timestamptz  NOT NULL DEFAULT now(),
    created_at         timestamptz  NOT NULL DEFAULT now(),
    started_at         timestamptz,
    completed_at       timestamptz,
    updated_at         timestamptz  NOT NULL DEFAULT now()
);

CREATE TABLE IF NOT EXISTS horsies_workflow_tasks (
    id                   varchar(36)  PRIMARY KEY,
    workflow_id          varchar(36)  NOT NULL REFERENCES horsies_workflows (id) ON DELETE CASCADE,
    task_index           integer      NOT NULL,
    node_id              varchar(128),
    task_name            varchar(255) NOT NULL,
    task_args            text,
    task_kwargs          text,
    queue_name           varchar(100) NOT NULL DEFAULT 'default',
    priority             integer      NOT NULL DEFAULT 100,
    dependencies         integer[]    NOT NULL DEFAULT '{}',
    args_from            jsonb,
    workflow_ctx_from    varchar(128)[],
    allow_failed_deps    boolean      NOT NULL DEFAULT false,
    join_type            varchar(10)  NOT NULL DEFAULT 'all',
    min_success          integer,
    task_options         text,
    status               varchar(50)  NOT NULL,
    task_id              varchar(36),
    is_subworkflow       boolean      NOT NULL DEFAULT false,
    sub_workflow_id      varchar(36)  REFERENCES horsies_workflows (id) ON DELETE SET NULL,
    sub_workflow_name    varchar(255),
    sub_definition_key   varchar(255),
    sub_workflow_summary text,
    result               text,
    error                text,
    created_at           timestamptz  NOT NULL DEFAULT now(),
    started_at           timestamptz,
    completed_at         timestamptz,
    CONSTRAINT uq_horsies_workflow_task_index UNIQUE (workflow_id, task_index)
);

-- From here to the functions: what a database made by upstream 0.1.0a35 lacks. Nothing of it changes a new database.

ALTER TABLE horsies_tasks
    ADD COLUMN IF NOT EXISTS is_workflow_task        boolean NOT NULL DEFAULT false,
    ADD COLUMN IF NOT EXISTS finalizing_at           timestamptz,
    ADD COLUMN IF NOT EXISTS finalizing_by_worker_id text;
ALTER TABLE horsies_worker_states ADD COLUMN IF NOT EXISTS children_memory_mb double precision;

-- A time without a zone is UTC there. One ALTER per table, so that a table is rewritten at most once; the default goes
-- first, because now()::timestamp would come back as the local time of whoever migrates.
DO $$
DECLARE
    naive record;
BEGIN
    FOR naive IN
        SELECT attrelid::regclass AS table_name,
               string_agg(format('ALTER COLUMN %1$I DROP DEFAULT, '
                                 'ALTER COLUMN %1$I TYPE timestamptz USING %1$I AT TIME ZONE ''UTC''', attname), ', ')
                   AS changes
          FROM pg_attribute
         WHERE attrelid = ANY (ARRAY['horsies_tasks', 'horsies_task_attempts', 'horsies_heartbeats',
                                     'horsies_worker_states', 'horsies_schedule_state', 'horsies_workflows',
                                     'horsies_workflow_tasks']::regclass[])
           AND atttypid = 'timestamp'::regtype AND NOT attisdropped
         GROUP BY attrelid
    LOOP
        EXECUTE format('ALTER TABLE %s %s', naive.table_name, naive.changes);
    END LOOP;
END
$$;

-- int4 runs out: 100 running tasks that beat every 30 s use up 2^31 ids in 20 years, 1 000 that beat every second in 25 days.
DO $$
DECLARE
    short regclass;
BEGIN
    FOR short IN
        SELECT attrelid::regclass
          FROM pg_attribute
         WHERE attrelid = ANY (ARRAY['horsies_heartbeats', 'horsies_worker_states']::regclass[])
           AND attname = 'id' AND atttypid = 'integer'::regtype
    LOOP
        EXECUTE format('ALTER TABLE %s ALTER COLUMN id TYPE bigint', short);
        EXECUTE format('ALTER SEQUENCE %s AS bigint', pg_get_serial_sequence(short::text, 'id'));
    END LOOP;
END
$$;

-- Upstream leaves these to the application; rows written by hand need them.
ALTER TABLE horsies_tasks
    ALTER COLUMN priority    SET DEFAULT 100,
    ALTER COLUMN status      SET DEFAULT 'PENDING',
    ALTER COLUMN enqueued_at SET DEFAULT now(),
    ALTER COLUMN claimed     SET DEFAULT false,
    ALTER COLUMN retry_count SET DEFAULT 0,
    ALTER COLUMN max_retries SET DEFAULT 0,
    ALTER COLUMN enqueue_sha SET DEFAULT 'legacy-pre-sha',
    ALTER COLUMN created_at  SET DEFAULT now(),
    ALTER COLUMN updated_at  SET DEFAULT now();
ALTER TABLE horsies_task_attempts
    ALTER COLUMN will_retry SET DEFAULT false,
    ALTER COLUMN created_at SET DEFAULT now();
ALTER TABLE horsies_heartbeats ALTER COLUMN sent_at SET DEFAULT now();
ALTER TABLE horsies_worker_states
    ALTER COLUMN snapshot_at   SET DEFAULT now(),
    ALTER COLUMN tasks_running SET DEFAULT 0,
    ALTER COLUMN tasks_claimed SET DEFAULT 0;
ALTER TABLE horsies_schedule_state
    ALTER COLUMN run_count  SET DEFAULT 0,
    ALTER COLUMN updated_at SET DEFAULT now();
ALTER TABLE horsies_workflows
    ALTER COLUMN on_error   SET DEFAULT 'fail',
    ALTER COLUMN depth      SET DEFAULT 0,
    ALTER COLUMN sent_at    SET DEFAULT now(),
    ALTER COLUMN created_at SET DEFAULT now(),
    ALTER COLUMN updated_at SET DEFAULT now();
ALTER TABLE horsies_workflow_tasks
    ALTER COLUMN queue_name        SET DEFAULT 'default',
    ALTER COLUMN priority          SET DEFAULT 100,
    ALTER COLUMN dependencies      SET DEFAULT '{}',
    ALTER COLUMN allow_failed_deps SET DEFAULT false,
    ALTER COLUMN join_type         SET DEFAULT 'all',
    ALTER COLUMN is_subworkflow    SET DEFAULT false,
    ALTER COLUMN created_at        SET DEFAULT now();

UPDATE horsies_tasks task
   SET is_workflow_task = true
  FROM horsies_workflow_tasks node
 WHERE node.task_id = task.id AND NOT task.is_workflow_task;

-- The text of this function and trigger is part of the contract. A channel name has at most 63 bytes, so a queue name
-- of more than 52 bytes fails here, in the insert.
CREATE OR REPLACE FUNCTION horsies_notify_task_changes() RETURNS trigger AS $$
BEGIN
    IF TG_OP = 'INSERT' AND NEW.status = 'PENDING' THEN
        PERFORM pg_notify('task_new', NEW.id);
        PERFORM pg_notify('task_queue_' || NEW.queue_name, NEW.id);
    ELSIF TG_OP = 'UPDATE' AND OLD.status != NEW.status THEN
        IF NEW.status IN ('COMPLETED', 'FAILED', 'CANCELLED', 'EXPIRED') THEN
            PERFORM pg_notify('task_done', NEW.id);
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
    IF TG_OP = 'INSERT' OR OLD.status != NEW.status THEN
        PERFORM pg_notify('horsies_task_status', NEW.id);
    END IF;
    RETURN NEW;
END;
$$ LANGUAGE plpgsql;

CREATE OR REPLACE TRIGGER horsies_task_status_notify_trigger
    AFTER INSERT OR UPDATE ON horsies_tasks
    FOR EACH ROW EXECUTE FUNCTION horsies_notify_task_status();

CREATE OR REPLACE FUNCTION horsies_notify_worker_state() RETURNS trigger AS $$
BEGIN
    PERFORM pg_notify('horsies_worker_state', NEW.worker_id);
    RETURN NEW;
END;
$$ LANGUAGE plpgsql;

CREATE OR REPLACE TRIGGER horsies_worker_state_notify_trigger
    AFTER INSERT OR UPDATE ON horsies_worker_states
    FOR EACH ROW EXECUTE FUNCTION horsies_notify_worker_state();

CREATE OR REPLACE FUNCTION horsies_notify_workflow_changes() RETURNS trigger AS $$
BEGIN
    IF OLD.status != NEW.status AND NEW.status IN ('COMPLETED', 'FAILED', 'CANCELLED', 'PAUSED') THEN
        PERFORM pg_notify('workflow_done', NEW.id);
    END IF;
    RETURN NEW;
END;
$$ LANGUAGE plpgsql;

CREATE OR REPLACE TRIGGER horsies_workflow_notify_trigger
    AFTER UPDATE ON horsies_workflows
    FOR EACH ROW EXECUTE FUNCTION horsies_notify_workflow_changes();

CREATE OR REPLACE FUNCTION horsies_notify_workflow_status() RETURNS trigger AS $$
BEGIN
    IF TG_OP = 'INSERT' OR OLD.status != NEW.status THEN
        PERFORM pg_notify('horsies_workflow_status', NEW.id);
    END IF;
    RETURN NEW;
END;
$$ LANGUAGE plpgsql;

CREATE OR REPLACE TRIGGER horsies_workflow_status_notify_trigger
    AFTER INSERT OR UPDATE ON horsies_workflows
    FOR EACH ROW EXECUTE FUNCTION horsies_notify_workflow_status();
