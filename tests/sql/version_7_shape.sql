-- a database of our version 7, with rows; fixture of test_migrations_adoption.py
-- As pg_dump writes it, but for the lists of states, which PostgreSQL would keep in another form if it read them from a dump.

CREATE TABLE horsies_tasks (
    id character varying(36) NOT NULL,
    task_name character varying(255) NOT NULL,
    queue_name character varying(100) NOT NULL,
    priority integer DEFAULT 100 NOT NULL,
    args text,
    kwargs text,
    status character varying(9) DEFAULT 'PENDING'::character varying NOT NULL,
    sent_at timestamp with time zone,
    enqueued_at timestamp with time zone DEFAULT now() NOT NULL,
    is_workflow_task boolean DEFAULT false NOT NULL,
    claimed_at timestamp with time zone,
    started_at timestamp with time zone,
    completed_at timestamp with time zone,
    failed_at timestamp with time zone,
    result text,
    failed_reason text,
    error_code text,
    claimed boolean DEFAULT false NOT NULL,
    claimed_by_worker_id character varying(255),
    good_until timestamp with time zone,
    retry_count integer DEFAULT 0 NOT NULL,
    max_retries integer DEFAULT 0 NOT NULL,
    next_retry_at timestamp with time zone,
    task_options text,
    worker_pid integer,
    worker_hostname character varying(255),
    worker_process_name character varying(255),
    claim_expires_at timestamp with time zone,
    finalizing_at timestamp with time zone,
    finalizing_by_worker_id text,
    enqueue_sha character varying(64) DEFAULT 'legacy-pre-sha'::character varying NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    updated_at timestamp with time zone DEFAULT now() NOT NULL,
    unique_key character varying(255),
    rerun_of character varying(36)
)
WITH (fillfactor='80', autovacuum_vacuum_scale_factor='0.01', autovacuum_vacuum_threshold='1000', autovacuum_vacuum_cost_delay='0', autovacuum_vacuum_insert_scale_factor='0.02', autovacuum_analyze_scale_factor='0.02');

CREATE FUNCTION horsies_claim_capped(worker_id text, queues text[], caps integer[], budget integer, cluster_cap integer, hard boolean, lease interval, task_names text[]) RETURNS SETOF horsies_tasks
    LANGUAGE plpgsql
    AS $$
DECLARE
    room   integer := budget;
    free   integer;
    taken  integer;
    busy   text[] := '{}';
    queue  record;
    guard  record;
    moment timestamptz := statement_timestamp();
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'a claim under caps needs READ COMMITTED, not %', upper(current_setting('transaction_isolation'))
            USING HINT = 'ALTER ROLE <role of the workers> SET default_transaction_isolation TO ''read committed''';
    END IF;
    -- Nothing depends on a claim that a crash of the server undoes.
    PERFORM set_config('synchronous_commit', 'off', true);

    -- Most wake-ups find nothing, and those shall hold up nobody.
    FOR queue IN SELECT name FROM unnest(queues) AS name LOOP
        IF (EXISTS (SELECT FROM horsies_tasks
                     WHERE status = 'PENDING' AND queue_name = queue.name AND enqueued_at <= moment)
            OR EXISTS (SELECT FROM horsies_tasks
                        WHERE status = 'CLAIMED' AND queue_name = queue.name AND claim_expires_at < moment))
           AND NOT EXISTS (SELECT FROM horsies_queue_state WHERE queue_name = queue.name AND paused_at IS NOT NULL)
        THEN
            busy := busy || queue.name;
        END IF;
    END LOOP;
    IF busy = '{}' THEN
        RETURN;
    END IF;

    -- In the order of the keys, as everybody does, so that no two wait for each other.
    FOR guard IN
        SELECT key FROM (
            SELECT hashtextextended('horsies-cap:cluster', 0) AS key WHERE cluster_cap IS NOT NULL
            UNION
            SELECT hashtextextended('horsies-cap:queue:' || name, 0) FROM unnest(queues, caps) AS limited (name, cap)
             WHERE cap IS NOT NULL AND name = ANY (busy)
        ) AS keys ORDER BY key
    LOOP
        PERFORM pg_advisory_xact_lock(guard.key);
    END LOOP;
    moment := clock_timestamp();

    IF cluster_cap IS NOT NULL THEN
        room := LEAST(room, cluster_cap - (
            SELECT count(*) FROM horsies_tasks
             WHERE status IN ('CLAIMED', 'RUNNING')
               AND (status = 'RUNNING' OR hard AND (claim_expires_at IS NULL OR claim_expires_at >= moment))));
    END IF;

    FOR queue IN
        SELECT name, cap FROM unnest(queues, caps) WITH ORDINALITY AS limited (name, cap, number)
         WHERE name = ANY (busy) ORDER BY number
    LOOP
        EXIT WHEN room <= 0;
        free := room;
        IF queue.cap IS NOT NULL THEN
            free := LEAST(free, queue.cap - (
                SELECT count(*) FROM horsies_tasks
                 WHERE queue_name = queue.name AND status IN ('CLAIMED', 'RUNNING')
                   AND (status = 'RUNNING' OR hard AND (claim_expires_at IS NULL OR claim_expires_at >= moment))));
        END IF;
        CONTINUE WHEN free <= 0;

        RETURN QUERY
        UPDATE horsies_tasks task
           SET status = 'CLAIMED', claimed = true, claimed_by_worker_id = worker_id, claimed_at = moment,
               claim_expires_at = moment + lease, updated_at = moment
         WHERE task.id = ANY (ARRAY(
                   SELECT id FROM (
                       SELECT id FROM horsies_tasks
                        WHERE status = 'PENDING' AND queue_name = queue.name AND enqueued_at <= moment
                          AND (next_retry_at IS NULL OR next_retry_at <= moment)
                          AND (good_until IS NULL OR good_until > moment)
                          AND (task_names IS NULL OR task_name = ANY (task_names))
                          AND CASE WHEN is_workflow_task
                                   THEN COALESCE(id NOT IN (SELECT horsies_held_tasks()), NOT horsies_is_held(id))
                                   ELSE true END
                        ORDER BY priority, enqueued_at, id
                        LIMIT 256 FOR NO KEY UPDATE SKIP LOCKED
                   ) first_ones
                   LIMIT free
               ))
        RETURNING task.*;
        GET DIAGNOSTICS taken = ROW_COUNT;
        room := room - taken;
        free := free - taken;
        CONTINUE WHEN free <= 0;

        RETURN QUERY
        UPDATE horsies_tasks task
           SET claimed = true, claimed_by_worker_id = worker_id, claimed_at = moment,
               claim_expires_at = moment + lease, updated_at = moment
         WHERE task.id = ANY (ARRAY(
                   SELECT id FROM horsies_tasks
                    WHERE status = 'CLAIMED' AND queue_name = queue.name AND claim_expires_at < moment
                      AND enqueued_at <= moment AND (next_retry_at IS NULL OR next_retry_at <= moment)
                      AND (good_until IS NULL OR good_until > moment)
                      AND (task_names IS NULL OR task_name = ANY (task_names))
                      AND CASE WHEN is_workflow_task THEN NOT horsies_is_held(id) ELSE true END
                    ORDER BY priority, enqueued_at, id
                    LIMIT free FOR NO KEY UPDATE SKIP LOCKED
               ))
        RETURNING task.*;
        GET DIAGNOSTICS taken = ROW_COUNT;
        room := room - taken;
    END LOOP;
END;
$$;

CREATE FUNCTION horsies_held_tasks() RETURNS SETOF character varying
    LANGUAGE plpgsql STABLE COST 10 ROWS 100
    AS $$
BEGIN
    IF (SELECT count(*) FROM (SELECT FROM horsies_workflows WHERE status = 'PAUSED' LIMIT 101) paused) > 100 THEN
        RETURN QUERY SELECT NULL::varchar;
    ELSE
        RETURN QUERY
        SELECT node.task_id
          FROM horsies_workflows workflow
          JOIN horsies_workflow_tasks node ON node.workflow_id = workflow.id
         WHERE workflow.status = 'PAUSED' AND node.status IN ('PENDING', 'READY', 'ENQUEUED', 'RUNNING')
           AND node.task_id IS NOT NULL;
    END IF;
END;
$$;

CREATE FUNCTION horsies_is_held(task character varying) RETURNS boolean
    LANGUAGE plpgsql STABLE COST 10
    AS $$
BEGIN
    RETURN EXISTS (SELECT FROM horsies_workflow_tasks node
                     JOIN horsies_workflows workflow ON workflow.id = node.workflow_id
                    WHERE node.task_id = task AND workflow.status = 'PAUSED');
END;
$$;

CREATE FUNCTION horsies_notify_task_changes() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
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
$$;

CREATE FUNCTION horsies_notify_task_status() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF TG_OP = 'INSERT' OR OLD.status != NEW.status THEN
        PERFORM pg_notify('horsies_task_status', NEW.id);
    END IF;
    RETURN NEW;
END;
$$;

CREATE FUNCTION horsies_notify_worker_state() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    PERFORM pg_notify('horsies_worker_state', NEW.worker_id);
    RETURN NEW;
END;
$$;

CREATE FUNCTION horsies_notify_workflow_changes() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF OLD.status != NEW.status AND NEW.status IN ('COMPLETED', 'FAILED', 'CANCELLED', 'PAUSED') THEN
        PERFORM pg_notify('workflow_done', NEW.id);
    END IF;
    RETURN NEW;
END;
$$;

CREATE FUNCTION horsies_notify_workflow_status() RETURNS trigger
    LANGUAGE plpgsql
    AS $$
BEGIN
    IF TG_OP = 'INSERT' OR OLD.status != NEW.status THEN
        PERFORM pg_notify('horsies_workflow_status', NEW.id);
    END IF;
    RETURN NEW;
END;
$$;

CREATE TABLE horsies_console_schema (
    version integer NOT NULL,
    name text NOT NULL,
    applied_at timestamp with time zone DEFAULT now() NOT NULL
);

CREATE TABLE horsies_heartbeats (
    id bigint NOT NULL,
    task_id character varying(36) NOT NULL,
    sender_id character varying(255) NOT NULL,
    role character varying(20) NOT NULL,
    sent_at timestamp with time zone DEFAULT now() NOT NULL,
    hostname character varying(255),
    pid integer
)
WITH (autovacuum_vacuum_scale_factor='0.01', autovacuum_vacuum_threshold='1000', autovacuum_vacuum_cost_delay='0', autovacuum_vacuum_insert_scale_factor='0.02');

CREATE SEQUENCE horsies_heartbeats_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;

ALTER SEQUENCE horsies_heartbeats_id_seq OWNED BY horsies_heartbeats.id;

CREATE TABLE horsies_operator_actions (
    id bigint NOT NULL,
    acted_at timestamp with time zone DEFAULT now() NOT NULL,
    operation_id uuid NOT NULL,
    verb text NOT NULL,
    target_kind text NOT NULL,
    target_id text NOT NULL,
    outcome text NOT NULL,
    detail text,
    before_state jsonb,
    after_state jsonb,
    os_user text,
    os_host text,
    db_role text DEFAULT CURRENT_USER NOT NULL,
    reason text,
    filter text,
    undoes bigint,
    CONSTRAINT ck_horsies_operator_actions_outcome CHECK ((outcome = ANY (ARRAY['applied'::text, 'refused'::text]))),
    CONSTRAINT ck_horsies_operator_actions_target_kind CHECK ((target_kind = ANY (ARRAY['task'::text, 'workflow'::text, 'node'::text, 'worker'::text, 'queue'::text, 'schedule'::text])))
);

ALTER TABLE horsies_operator_actions ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME horsies_operator_actions_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE horsies_queue_state (
    queue_name character varying(100) NOT NULL,
    paused_at timestamp with time zone,
    paused_by text,
    reason text,
    updated_at timestamp with time zone DEFAULT now() NOT NULL
);

CREATE TABLE horsies_schedule_state (
    schedule_name character varying(255) NOT NULL,
    last_run_at timestamp with time zone,
    next_run_at timestamp with time zone,
    last_task_id character varying(36),
    run_count integer DEFAULT 0 NOT NULL,
    config_hash character varying(64),
    updated_at timestamp with time zone DEFAULT now() NOT NULL
);

CREATE TABLE horsies_sweep_state (
    sweep text NOT NULL,
    ran_at timestamp with time zone NOT NULL,
    worker_id character varying(255),
    interval_ms integer,
    report jsonb
);

CREATE TABLE horsies_task_attempts (
    id bigint NOT NULL,
    task_id character varying(36) NOT NULL,
    attempt integer NOT NULL,
    outcome character varying(32) NOT NULL,
    will_retry boolean DEFAULT false NOT NULL,
    started_at timestamp with time zone NOT NULL,
    finished_at timestamp with time zone NOT NULL,
    error_code text,
    error_message text,
    failed_reason text,
    worker_id character varying(255),
    worker_hostname character varying(255),
    worker_pid integer,
    worker_process_name character varying(255),
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT ck_horsies_task_attempts_outcome CHECK ((outcome IN ('COMPLETED', 'FAILED', 'WORKER_FAILURE')))
);

CREATE SEQUENCE horsies_task_attempts_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;

ALTER SEQUENCE horsies_task_attempts_id_seq OWNED BY horsies_task_attempts.id;

CREATE TABLE horsies_worker_orders (
    worker_id character varying(255) NOT NULL,
    draining_since timestamp with time zone,
    ordered_by text,
    reason text,
    updated_at timestamp with time zone DEFAULT now() NOT NULL
);

CREATE TABLE horsies_worker_states (
    id bigint NOT NULL,
    worker_id character varying(255) NOT NULL,
    snapshot_at timestamp with time zone DEFAULT now() NOT NULL,
    hostname character varying(255) NOT NULL,
    pid integer NOT NULL,
    processes integer NOT NULL,
    max_claim_batch integer NOT NULL,
    max_claim_per_worker integer NOT NULL,
    cluster_wide_cap integer,
    queues character varying[] NOT NULL,
    queue_priorities jsonb,
    queue_max_concurrency jsonb,
    recovery_config jsonb,
    tasks_running integer DEFAULT 0 NOT NULL,
    tasks_claimed integer DEFAULT 0 NOT NULL,
    memory_usage_mb double precision,
    children_memory_mb double precision,
    memory_percent double precision,
    cpu_percent double precision,
    worker_started_at timestamp with time zone NOT NULL,
    task_names text[],
    horsies_version text,
    draining boolean
);

CREATE SEQUENCE horsies_worker_states_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;

ALTER SEQUENCE horsies_worker_states_id_seq OWNED BY horsies_worker_states.id;

CREATE TABLE horsies_workflow_tasks (
    id character varying(36) NOT NULL,
    workflow_id character varying(36) NOT NULL,
    task_index integer NOT NULL,
    node_id character varying(128),
    task_name character varying(255) NOT NULL,
    task_args text,
    task_kwargs text,
    queue_name character varying(100) DEFAULT 'default'::character varying NOT NULL,
    priority integer DEFAULT 100 NOT NULL,
    dependencies integer[] DEFAULT '{}'::integer[] NOT NULL,
    args_from jsonb,
    workflow_ctx_from character varying(128)[],
    allow_failed_deps boolean DEFAULT false NOT NULL,
    join_type character varying(10) DEFAULT 'all'::character varying NOT NULL,
    min_success integer,
    task_options text,
    status character varying(50) NOT NULL,
    task_id character varying(36),
    is_subworkflow boolean DEFAULT false NOT NULL,
    sub_workflow_id character varying(36),
    sub_workflow_name character varying(255),
    sub_definition_key character varying(255),
    sub_workflow_summary text,
    result text,
    error text,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    started_at timestamp with time zone,
    completed_at timestamp with time zone
);

CREATE TABLE horsies_workflows (
    id character varying(36) NOT NULL,
    name character varying(255) NOT NULL,
    status character varying(50) NOT NULL,
    on_error character varying(50) DEFAULT 'fail'::character varying NOT NULL,
    output_task_index integer,
    success_policy jsonb,
    result text,
    error text,
    definition_key character varying(255),
    parent_workflow_id character varying(36),
    parent_task_index integer,
    depth integer DEFAULT 0 NOT NULL,
    root_workflow_id character varying(36),
    sent_at timestamp with time zone DEFAULT now() NOT NULL,
    created_at timestamp with time zone DEFAULT now() NOT NULL,
    started_at timestamp with time zone,
    completed_at timestamp with time zone,
    updated_at timestamp with time zone DEFAULT now() NOT NULL
);

ALTER TABLE ONLY horsies_heartbeats ALTER COLUMN id SET DEFAULT nextval('horsies_heartbeats_id_seq'::regclass);

ALTER TABLE ONLY horsies_task_attempts ALTER COLUMN id SET DEFAULT nextval('horsies_task_attempts_id_seq'::regclass);

ALTER TABLE ONLY horsies_worker_states ALTER COLUMN id SET DEFAULT nextval('horsies_worker_states_id_seq'::regclass);

ALTER TABLE ONLY horsies_console_schema
    ADD CONSTRAINT horsies_console_schema_pkey PRIMARY KEY (version);

ALTER TABLE ONLY horsies_heartbeats
    ADD CONSTRAINT horsies_heartbeats_pkey PRIMARY KEY (id);

ALTER TABLE ONLY horsies_operator_actions
    ADD CONSTRAINT horsies_operator_actions_pkey PRIMARY KEY (id);

ALTER TABLE ONLY horsies_queue_state
    ADD CONSTRAINT horsies_queue_state_pkey PRIMARY KEY (queue_name);

ALTER TABLE ONLY horsies_schedule_state
    ADD CONSTRAINT horsies_schedule_state_pkey PRIMARY KEY (schedule_name);

ALTER TABLE ONLY horsies_sweep_state
    ADD CONSTRAINT horsies_sweep_state_pkey PRIMARY KEY (sweep);

ALTER TABLE ONLY horsies_task_attempts
    ADD CONSTRAINT horsies_task_attempts_pkey PRIMARY KEY (id);

ALTER TABLE ONLY horsies_tasks
    ADD CONSTRAINT horsies_tasks_pkey PRIMARY KEY (id);

ALTER TABLE ONLY horsies_worker_orders
    ADD CONSTRAINT horsies_worker_orders_pkey PRIMARY KEY (worker_id);

ALTER TABLE ONLY horsies_worker_states
    ADD CONSTRAINT horsies_worker_states_pkey PRIMARY KEY (id);

ALTER TABLE ONLY horsies_workflow_tasks
    ADD CONSTRAINT horsies_workflow_tasks_pkey PRIMARY KEY (id);

ALTER TABLE ONLY horsies_workflows
    ADD CONSTRAINT horsies_workflows_pkey PRIMARY KEY (id);

ALTER TABLE ONLY horsies_workflow_tasks
    ADD CONSTRAINT uq_horsies_workflow_task_index UNIQUE (workflow_id, task_index);

CREATE INDEX idx_horsies_heartbeats_task_role_sent ON horsies_heartbeats USING btree (task_id, role, sent_at DESC);

CREATE INDEX idx_horsies_task_attempts_error_code ON horsies_task_attempts USING btree (error_code) WHERE (error_code IS NOT NULL);

CREATE INDEX idx_horsies_task_attempts_finished_at_desc ON horsies_task_attempts USING btree (finished_at DESC);

CREATE INDEX idx_horsies_tasks_error_code ON horsies_tasks USING btree (error_code) WHERE (error_code IS NOT NULL);

CREATE INDEX ix_horsies_operator_actions_latest ON horsies_operator_actions USING btree (acted_at DESC, id DESC);

CREATE INDEX ix_horsies_operator_actions_operation ON horsies_operator_actions USING btree (operation_id);

CREATE INDEX ix_horsies_operator_actions_target ON horsies_operator_actions USING btree (target_kind, target_id, id DESC);

CREATE INDEX ix_horsies_operator_actions_undoes ON horsies_operator_actions USING btree (undoes) WHERE (undoes IS NOT NULL);

CREATE INDEX ix_horsies_schedule_state_next_run_at ON horsies_schedule_state USING btree (next_run_at);

CREATE INDEX ix_horsies_tasks_claimed_by ON horsies_tasks USING btree (claimed_by_worker_id) WHERE claimed;

CREATE INDEX ix_horsies_tasks_created ON horsies_tasks USING btree (created_at, id);

CREATE INDEX ix_horsies_tasks_expiring ON horsies_tasks USING btree (good_until) WHERE (((status)::text = 'PENDING'::text) AND (good_until IS NOT NULL));

CREATE INDEX ix_horsies_tasks_finished ON horsies_tasks USING btree (COALESCE(completed_at, failed_at)) WHERE (status IN ('COMPLETED', 'FAILED', 'CANCELLED', 'EXPIRED'));

CREATE INDEX ix_horsies_tasks_in_flight ON horsies_tasks USING btree (queue_name, status) WHERE (status IN ('CLAIMED', 'RUNNING'));

CREATE INDEX ix_horsies_tasks_ready ON horsies_tasks USING btree (queue_name, priority, enqueued_at, id) WHERE ((status)::text = 'PENDING'::text);

CREATE INDEX ix_horsies_tasks_rerun_of ON horsies_tasks USING btree (rerun_of) WHERE (rerun_of IS NOT NULL);

CREATE INDEX ix_horsies_tasks_retrying ON horsies_tasks USING btree (next_retry_at) WHERE (((status)::text = 'PENDING'::text) AND (next_retry_at IS NOT NULL));

CREATE INDEX ix_horsies_tasks_unsuccessful ON horsies_tasks USING btree (status, COALESCE(completed_at, failed_at)) WHERE (status IN ('FAILED', 'CANCELLED', 'EXPIRED'));

CREATE INDEX ix_horsies_tasks_unsuccessful_created ON horsies_tasks USING btree (created_at, id) WHERE (status IN ('FAILED', 'CANCELLED', 'EXPIRED'));

CREATE INDEX ix_horsies_tasks_untimed ON horsies_tasks USING btree (created_at, id) WHERE ((status IN ('COMPLETED', 'FAILED', 'CANCELLED', 'EXPIRED')) AND (COALESCE(completed_at, failed_at) IS NULL));

CREATE INDEX ix_horsies_worker_states_snapshot_at ON horsies_worker_states USING btree (snapshot_at);

CREATE INDEX ix_horsies_worker_states_tasks_claimed ON horsies_worker_states USING btree (tasks_claimed);

CREATE INDEX ix_horsies_worker_states_tasks_running ON horsies_worker_states USING btree (tasks_running);

CREATE INDEX ix_horsies_worker_states_worker_id ON horsies_worker_states USING btree (worker_id);

CREATE INDEX ix_horsies_worker_states_worker_latest ON horsies_worker_states USING btree (worker_id, snapshot_at DESC) INCLUDE (tasks_running, tasks_claimed);

CREATE INDEX ix_horsies_workflow_tasks_childless ON horsies_workflow_tasks USING btree (workflow_id, task_index) WHERE (is_subworkflow AND (sub_workflow_id IS NULL) AND ((status)::text = 'READY'::text));

CREATE INDEX ix_horsies_workflow_tasks_open ON horsies_workflow_tasks USING btree (workflow_id, task_index) WHERE (status IN ('PENDING', 'READY', 'ENQUEUED', 'RUNNING'));

CREATE INDEX ix_horsies_workflow_tasks_status ON horsies_workflow_tasks USING btree (status);

CREATE INDEX ix_horsies_workflow_tasks_sub_workflow_id ON horsies_workflow_tasks USING btree (sub_workflow_id);

CREATE INDEX ix_horsies_workflow_tasks_task_id ON horsies_workflow_tasks USING btree (task_id);

CREATE INDEX ix_horsies_workflows_created ON horsies_workflows USING btree (created_at, id);

CREATE INDEX ix_horsies_workflows_finished ON horsies_workflows USING btree (COALESCE(completed_at, updated_at, created_at)) WHERE (status IN ('COMPLETED', 'FAILED', 'CANCELLED'));

CREATE INDEX ix_horsies_workflows_live_created ON horsies_workflows USING btree (created_at, id) WHERE (status IN ('PENDING', 'RUNNING', 'PAUSED'));

CREATE INDEX ix_horsies_workflows_parent_workflow_id ON horsies_workflows USING btree (parent_workflow_id);

CREATE INDEX ix_horsies_workflows_root_workflow_id ON horsies_workflows USING btree (root_workflow_id);

CREATE INDEX ix_horsies_workflows_status ON horsies_workflows USING btree (status);

CREATE INDEX ix_horsies_workflows_unsuccessful_created ON horsies_workflows USING btree (created_at, id) WHERE (status IN ('FAILED', 'CANCELLED'));

CREATE INDEX ix_horsies_workflows_updated_at ON horsies_workflows USING btree (updated_at);

CREATE UNIQUE INDEX uq_horsies_task_attempts_task_attempt ON horsies_task_attempts USING btree (task_id, attempt);

CREATE UNIQUE INDEX uq_horsies_tasks_unique_key ON horsies_tasks USING btree (unique_key) WHERE ((unique_key IS NOT NULL) AND (status IN ('PENDING', 'CLAIMED', 'RUNNING')));

CREATE TRIGGER horsies_task_notify_trigger AFTER INSERT OR UPDATE ON horsies_tasks FOR EACH ROW EXECUTE FUNCTION horsies_notify_task_changes();

CREATE TRIGGER horsies_task_status_notify_trigger AFTER INSERT OR UPDATE ON horsies_tasks FOR EACH ROW EXECUTE FUNCTION horsies_notify_task_status();

CREATE TRIGGER horsies_worker_state_notify_trigger AFTER INSERT OR UPDATE ON horsies_worker_states FOR EACH ROW EXECUTE FUNCTION horsies_notify_worker_state();

CREATE TRIGGER horsies_workflow_notify_trigger AFTER UPDATE ON horsies_workflows FOR EACH ROW EXECUTE FUNCTION horsies_notify_workflow_changes();

CREATE TRIGGER horsies_workflow_status_notify_trigger AFTER INSERT OR UPDATE ON horsies_workflows FOR EACH ROW EXECUTE FUNCTION horsies_notify_workflow_status();

ALTER TABLE ONLY horsies_operator_actions
    ADD CONSTRAINT horsies_operator_actions_undoes_fkey FOREIGN KEY (undoes) REFERENCES horsies_operator_actions(id) ON DELETE SET NULL;

ALTER TABLE ONLY horsies_task_attempts
    ADD CONSTRAINT horsies_task_attempts_task_id_fkey FOREIGN KEY (task_id) REFERENCES horsies_tasks(id) ON DELETE CASCADE;

ALTER TABLE ONLY horsies_workflow_tasks
    ADD CONSTRAINT horsies_workflow_tasks_sub_workflow_id_fkey FOREIGN KEY (sub_workflow_id) REFERENCES horsies_workflows(id) ON DELETE SET NULL;

ALTER TABLE ONLY horsies_workflow_tasks
    ADD CONSTRAINT horsies_workflow_tasks_workflow_id_fkey FOREIGN KEY (workflow_id) REFERENCES horsies_workflows(id) ON DELETE CASCADE;

ALTER TABLE ONLY horsies_workflows
    ADD CONSTRAINT horsies_workflows_parent_workflow_id_fkey FOREIGN KEY (parent_workflow_id) REFERENCES horsies_workflows(id) ON DELETE CASCADE;

INSERT INTO horsies_console_schema (version, name, applied_at)
SELECT number, name, '2026-05-01 12:00:00+00'
  FROM unnest('{contract,indexes,console,claim,unique_key,operations,workflows}'::text[])
       WITH ORDINALITY AS applied (name, number);

INSERT INTO horsies_tasks (id, task_name, queue_name, status, sent_at, result, claimed, claimed_by_worker_id, claimed_at,
                           started_at, completed_at, failed_at, error_code, retry_count, max_retries, unique_key, rerun_of)
SELECT 'plain-' || n, 'demo.add', 'default', status, now(), '{"__task_result__":true,"ok":1,"err":null}',
       status IN ('CLAIMED', 'RUNNING'), CASE WHEN status NOT IN ('PENDING', 'EXPIRED') THEN 'w-1' END,
       CASE WHEN status IN ('CLAIMED', 'RUNNING') THEN now() END, CASE status WHEN 'RUNNING' THEN now() END,
       CASE status WHEN 'COMPLETED' THEN now() END, CASE status WHEN 'FAILED' THEN now() END,
       CASE status WHEN 'FAILED' THEN 'WORKER_CRASHED' END, 1, 3, 'key-' || n, CASE n WHEN 1 THEN 'plain-5' END
  FROM unnest(ARRAY['PENDING', 'CLAIMED', 'RUNNING', 'COMPLETED', 'FAILED', 'CANCELLED', 'EXPIRED'])
       WITH ORDINALITY AS listed (status, n);
INSERT INTO horsies_tasks (id, task_name, queue_name, status, sent_at, is_workflow_task, good_until)
VALUES ('paused-waits', 'demo.sum', 'default', 'PENDING', now(), true, NULL),
       ('paused-waits-until', 'demo.sum', 'default', 'PENDING', now(), true, '2100-01-01 00:00:00+00'),
       ('paused-runs', 'demo.sum', 'default', 'RUNNING', now(), true, NULL),
       ('paused-done', 'demo.sum', 'default', 'COMPLETED', now(), true, NULL),
       ('running-waits', 'demo.sum', 'default', 'PENDING', now(), true, NULL);

INSERT INTO horsies_task_attempts (task_id, attempt, outcome, will_retry, started_at, finished_at, error_code)
VALUES ('plain-5', 1, 'FAILED', true, now(), now(), 'WORKER_CRASHED'),
       ('plain-5', 2, 'WORKER_FAILURE', false, now(), now(), NULL),
       ('plain-4', 1, 'COMPLETED', false, now(), now(), NULL);
INSERT INTO horsies_heartbeats (task_id, sender_id, role, hostname, pid)
VALUES ('plain-2', 'w-1', 'claimer', 'host', 1), ('plain-3', 'w-1', 'runner', 'host', 2);
INSERT INTO horsies_worker_states (worker_id, hostname, pid, processes, max_claim_batch, max_claim_per_worker, queues,
                                   recovery_config, tasks_running, worker_started_at, task_names, horsies_version, draining)
VALUES ('w-1', 'host', 1, 2, 2, 2, '{default}', '{"check_interval_ms": 30000}', 1, now(), '{demo.add}', '0.1.0', false);
INSERT INTO horsies_schedule_state (schedule_name, next_run_at, run_count) VALUES ('nightly', now(), 7);

INSERT INTO horsies_workflows (id, name, status) VALUES ('wf-paused', 'ship', 'PAUSED'), ('wf-running', 'ship', 'RUNNING');
INSERT INTO horsies_workflow_tasks (id, workflow_id, task_index, task_name, status, task_id)
VALUES ('n-1', 'wf-paused', 0, 'demo.sum', 'ENQUEUED', 'paused-waits'),
       ('n-2', 'wf-paused', 1, 'demo.sum', 'ENQUEUED', 'paused-waits-until'),
       ('n-3', 'wf-paused', 2, 'demo.sum', 'RUNNING', 'paused-runs'),
       ('n-4', 'wf-paused', 3, 'demo.sum', 'COMPLETED', 'paused-done'),
       ('n-5', 'wf-running', 0, 'demo.sum', 'ENQUEUED', 'running-waits');

INSERT INTO horsies_operator_actions (operation_id, verb, target_kind, target_id, outcome, before_state, reason)
VALUES ('00000000-0000-7000-8000-000000000001', 'requeue', 'task', 'plain-1', 'applied', '{"status": "FAILED"}', 'again');
INSERT INTO horsies_operator_actions (operation_id, verb, target_kind, target_id, outcome, detail, undoes)
VALUES ('00000000-0000-7000-8000-000000000002', 'undo', 'task', 'plain-1', 'refused', 'it runs', 1);
INSERT INTO horsies_queue_state (queue_name, paused_at, paused_by) VALUES ('mail', now(), 'ann');
INSERT INTO horsies_worker_orders (worker_id, draining_since, ordered_by) VALUES ('w-1', now(), 'ann');
INSERT INTO horsies_sweep_state (sweep, ran_at, worker_id, interval_ms, report) VALUES ('claims', now(), 'w-1', 5000, '{}');
