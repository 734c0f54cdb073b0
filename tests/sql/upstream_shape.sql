-- a database as upstream 0.1.0a35 leaves it, with rows; fixture of test_migrations_adoption.py
-- Three columns hold their time without a zone, as the seed writes them and as older upstream databases have them.

CREATE TABLE horsies_tasks (
    id varchar(36) PRIMARY KEY,
    task_name varchar(255) NOT NULL,
    queue_name varchar(100) NOT NULL,
    priority integer NOT NULL DEFAULT 100,
    args text,
    kwargs text,
    status varchar(9) NOT NULL,
    sent_at timestamptz,
    enqueued_at timestamptz NOT NULL DEFAULT now(),
    claimed_at timestamptz,
    started_at timestamptz,
    completed_at timestamptz,
    failed_at timestamptz,
    result text,
    failed_reason text,
    error_code text,
    claimed boolean NOT NULL DEFAULT false,
    claimed_by_worker_id varchar(255),
    claim_expires_at timestamptz,
    good_until timestamptz,
    retry_count integer NOT NULL DEFAULT 0,
    max_retries integer NOT NULL DEFAULT 0,
    next_retry_at timestamptz,
    task_options text,
    enqueue_sha varchar(64) NOT NULL,
    worker_pid integer,
    worker_hostname varchar(255),
    worker_process_name varchar(255),
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX ix_horsies_tasks_queue_name ON horsies_tasks (queue_name);
CREATE INDEX ix_horsies_tasks_status ON horsies_tasks (status);
CREATE INDEX ix_horsies_tasks_claimed ON horsies_tasks (claimed);
CREATE INDEX ix_horsies_tasks_good_until ON horsies_tasks (good_until);
CREATE INDEX ix_horsies_tasks_next_retry_at ON horsies_tasks (next_retry_at);
CREATE INDEX ix_horsies_tasks_claim_expires_at ON horsies_tasks (claim_expires_at);
CREATE INDEX idx_horsies_tasks_error_code ON horsies_tasks (error_code) WHERE error_code IS NOT NULL;

CREATE TABLE horsies_task_attempts (
    id bigserial PRIMARY KEY,
    task_id varchar(36) NOT NULL REFERENCES horsies_tasks (id) ON DELETE CASCADE,
    attempt integer NOT NULL,
    outcome varchar(32) NOT NULL,
    will_retry boolean NOT NULL DEFAULT false,
    started_at timestamptz NOT NULL,
    finished_at timestamptz NOT NULL,
    error_code text,
    error_message text,
    failed_reason text,
    worker_id varchar(255),
    worker_hostname varchar(255),
    worker_pid integer,
    worker_process_name varchar(255),
    created_at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT ck_horsies_task_attempts_outcome CHECK (outcome IN ('COMPLETED', 'FAILED', 'WORKER_FAILURE'))
);
CREATE UNIQUE INDEX uq_horsies_task_attempts_task_attempt ON horsies_task_attempts (task_id, attempt);
CREATE INDEX idx_horsies_task_attempts_error_code ON horsies_task_attempts (error_code) WHERE error_code IS NOT NULL;
CREATE INDEX idx_horsies_task_attempts_finished_at_desc ON horsies_task_attempts (finished_at DESC);

CREATE TABLE horsies_heartbeats (
    id serial PRIMARY KEY,
    task_id varchar(36) NOT NULL,
    sender_id varchar(255) NOT NULL,
    role varchar(20) NOT NULL,
    sent_at timestamp NOT NULL,
    hostname varchar(255),
    pid integer
);
CREATE INDEX idx_horsies_heartbeats_task_role_sent ON horsies_heartbeats (task_id, role, sent_at DESC);

CREATE TABLE horsies_worker_states (
    id serial PRIMARY KEY,
    worker_id varchar(255) NOT NULL,
    snapshot_at timestamptz NOT NULL,
    hostname varchar(255) NOT NULL,
    pid integer NOT NULL,
    processes integer NOT NULL,
    max_claim_batch integer NOT NULL,
    max_claim_per_worker integer NOT NULL,
    cluster_wide_cap integer,
    queues varchar[] NOT NULL,
    queue_priorities jsonb,
    queue_max_concurrency jsonb,
    recovery_config jsonb,
    tasks_running integer NOT NULL,
    tasks_claimed integer NOT NULL,
    memory_usage_mb double precision,
    memory_percent double precision,
    cpu_percent double precision,
    worker_started_at timestamptz NOT NULL
);
CREATE INDEX ix_horsies_worker_states_worker_id ON horsies_worker_states (worker_id);
CREATE INDEX ix_horsies_worker_states_snapshot_at ON horsies_worker_states (snapshot_at);
CREATE INDEX ix_horsies_worker_states_tasks_running ON horsies_worker_states (tasks_running);
CREATE INDEX ix_horsies_worker_states_tasks_claimed ON horsies_worker_states (tasks_claimed);

CREATE TABLE horsies_schedule_state (
    schedule_name varchar(255) PRIMARY KEY,
    last_run_at timestamptz,
    next_run_at timestamptz,
    last_task_id varchar(36),
    run_count integer NOT NULL,
    config_hash varchar(64),
    updated_at timestamptz NOT NULL
);
CREATE INDEX ix_horsies_schedule_state_next_run_at ON horsies_schedule_state (next_run_at);

CREATE TABLE horsies_workflows (
    id varchar(36) PRIMARY KEY,
    name varchar(255) NOT NULL,
    status varchar(50) NOT NULL,
    on_error varchar(50) NOT NULL,
    output_task_index integer,
    success_policy jsonb,
    result text,
    error text,
    definition_key varchar(255),
    parent_workflow_id varchar(36) REFERENCES horsies_workflows (id) ON DELETE CASCADE,
    parent_task_index integer,
    depth integer NOT NULL,
    root_workflow_id varchar(36),
    sent_at timestamptz NOT NULL DEFAULT now(),
    created_at timestamp NOT NULL DEFAULT now(),
    started_at timestamptz,
    completed_at timestamp,
    updated_at timestamptz NOT NULL
);
CREATE INDEX ix_horsies_workflows_status ON horsies_workflows (status);
CREATE INDEX ix_horsies_workflows_parent_workflow_id ON horsies_workflows (parent_workflow_id);
CREATE INDEX ix_horsies_workflows_root_workflow_id ON horsies_workflows (root_workflow_id);
CREATE INDEX ix_horsies_workflows_updated_at ON horsies_workflows (updated_at);

CREATE TABLE horsies_workflow_tasks (
    id varchar(36) PRIMARY KEY,
    workflow_id varchar(36) NOT NULL REFERENCES horsies_workflows (id) ON DELETE CASCADE,
    task_index integer NOT NULL,
    node_id varchar(128),
    task_name varchar(255) NOT NULL,
    task_args text,
    task_kwargs text,
    queue_name varchar(100) NOT NULL,
    priority integer NOT NULL,
    dependencies integer[] NOT NULL,
    args_from jsonb,
    workflow_ctx_from varchar(128)[],
    allow_failed_deps boolean NOT NULL,
    join_type varchar(10) NOT NULL,
    min_success integer,
    task_options text,
    status varchar(50) NOT NULL,
    task_id varchar(36),
    is_subworkflow boolean NOT NULL,
    sub_workflow_id varchar(36) REFERENCES horsies_workflows (id) ON DELETE SET NULL,
    sub_workflow_name varchar(255),
    sub_definition_key varchar(255),
    sub_workflow_summary text,
    result text,
    error text,
    created_at timestamptz NOT NULL,
    started_at timestamptz,
    completed_at timestamptz,
    CONSTRAINT uq_horsies_workflow_task_index UNIQUE (workflow_id, task_index)
);
CREATE INDEX ix_horsies_workflow_tasks_workflow_id ON horsies_workflow_tasks (workflow_id);
CREATE INDEX ix_horsies_workflow_tasks_node_id ON horsies_workflow_tasks (node_id);
CREATE INDEX ix_horsies_workflow_tasks_status ON horsies_workflow_tasks (status);
CREATE INDEX ix_horsies_workflow_tasks_task_id ON horsies_workflow_tasks (task_id);
CREATE INDEX ix_horsies_workflow_tasks_sub_workflow_id ON horsies_workflow_tasks (sub_workflow_id);
CREATE INDEX idx_horsies_workflow_tasks_deps ON horsies_workflow_tasks USING gin (dependencies);

CREATE FUNCTION horsies_notify_task_changes() RETURNS trigger AS $$
BEGIN
    IF TG_OP = 'INSERT' AND NEW.status = 'PENDING' THEN
        PERFORM pg_notify('task_new', NEW.id);
        PERFORM pg_notify('task_queue_' || NEW.queue_name, NEW.id);
    ELSIF TG_OP = 'UPDATE' AND OLD.status != NEW.status THEN
        IF NEW.status IN ('COMPLETED', 'FAILED', 'CANCELLED') THEN
            PERFORM pg_notify('task_done', NEW.id);
        END IF;
    END IF;
    RETURN NEW;
END;
$$ LANGUAGE plpgsql;
CREATE TRIGGER horsies_task_notify_trigger AFTER INSERT OR UPDATE ON horsies_tasks
    FOR EACH ROW EXECUTE FUNCTION horsies_notify_task_changes();

INSERT INTO horsies_tasks (id, task_name, queue_name, status, sent_at, result, claimed_by_worker_id, completed_at,
                           failed_at, error_code, retry_count, max_retries, enqueue_sha)
SELECT 'plain-' || n, 'demo.add', 'default', status, now(), '{"__task_result__":true,"ok":1,"err":null}', 'w-1',
       CASE status WHEN 'COMPLETED' THEN now() END, CASE status WHEN 'FAILED' THEN now() END,
       CASE status WHEN 'FAILED' THEN 'WORKER_CRASHED' END, 1, 3, 'legacy-pre-sha'
  FROM unnest(ARRAY['PENDING', 'CLAIMED', 'RUNNING', 'COMPLETED', 'FAILED', 'CANCELLED', 'EXPIRED'])
       WITH ORDINALITY AS listed (status, n);
INSERT INTO horsies_tasks (id, task_name, queue_name, status, sent_at, enqueue_sha)
SELECT 'node-task-' || n, 'demo.sum', 'default', 'RUNNING', now(), repeat('ab', 32) FROM generate_series(1, 3) n;

INSERT INTO horsies_task_attempts (task_id, attempt, outcome, will_retry, started_at, finished_at, error_code)
VALUES ('plain-5', 1, 'FAILED', true, now(), now(), 'WORKER_CRASHED'),
       ('plain-5', 2, 'WORKER_FAILURE', false, now(), now(), NULL),
       ('plain-4', 1, 'COMPLETED', false, now(), now(), NULL);

INSERT INTO horsies_heartbeats (task_id, sender_id, role, sent_at, hostname, pid)
VALUES ('plain-2', 'w-1', 'claimer', '2026-01-31 08:00:00', 'host', 1),
       ('plain-3', 'w-1:2', 'runner', '2026-07-31 08:00:00', 'host', 2);

INSERT INTO horsies_worker_states (worker_id, snapshot_at, hostname, pid, processes, max_claim_batch,
                                   max_claim_per_worker, queues, recovery_config, tasks_running, tasks_claimed,
                                   memory_usage_mb, worker_started_at)
VALUES ('w-1', now(), 'host', 1, 2, 2, 2, '{default}', '{"check_interval_ms": 30000}', 1, 1, 71.5, now()),
       ('w-1', now(), 'host', 1, 2, 2, 2, '{default,mail}', NULL, 2, 0, 71.9, now());

INSERT INTO horsies_schedule_state (schedule_name, next_run_at, run_count, config_hash, updated_at)
VALUES ('nightly', now(), 7, repeat('0', 64), now()), ('hourly', NULL, 0, NULL, now());

INSERT INTO horsies_workflows (id, name, status, on_error, depth, root_workflow_id, parent_workflow_id, success_policy,
                               created_at, completed_at, updated_at)
VALUES ('wf-1', 'ship', 'RUNNING', 'fail', 0, 'wf-1', NULL, '{"cases":[{"required_indices":[1]}]}',
        '2026-03-29 01:30:00', NULL, now()),
       ('wf-2', 'pack', 'COMPLETED', 'pause', 1, 'wf-1', 'wf-1', NULL, '2026-03-29 02:30:00', '2026-03-29 03:30:00', now());

INSERT INTO horsies_workflow_tasks (id, workflow_id, task_index, node_id, task_name, task_args, task_kwargs, queue_name,
                                    priority, dependencies, args_from, workflow_ctx_from, allow_failed_deps, join_type,
                                    status, task_id, is_subworkflow, sub_workflow_id, created_at)
VALUES ('n-1', 'wf-1', 0, 'ship:0', 'demo.sum', '[]', '{}', 'default', 100, '{}', NULL, NULL, false, 'all',
        'RUNNING', 'node-task-1', false, NULL, now()),
       ('n-2', 'wf-1', 1, 'ship:1', 'pack', '[]', '{}', 'default', 100, '{0}', '{"left":0}', '{ship:0}', true, 'any',
        'RUNNING', NULL, true, 'wf-2', now()),
       ('n-3', 'wf-2', 0, 'pack:0', 'demo.sum', '[]', '{}', 'default', 100, '{}', NULL, NULL, false, 'all',
        'RUNNING', 'node-task-2', false, NULL, now()),
       ('n-4', 'wf-2', 1, 'pack:1', 'demo.sum', '[]', '{}', 'default', 100, '{0}', NULL, NULL, false, 'quorum',
        'PENDING', 'node-task-3', false, NULL, now());
