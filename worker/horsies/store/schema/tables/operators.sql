-- actions of operators, their orders to queues and workers, and their looks at tasks; a part of the schema, run by upgrade.py

-- One row per target of an operator action, whether it was applied or refused; never changed afterwards. The rows of
-- one confirmed operation share an operation_id.
CREATE TABLE IF NOT EXISTS horsies_operator_actions (
    id           bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    acted_at     timestamptz NOT NULL DEFAULT now(),
    operation_id uuid        NOT NULL,
    verb         text        NOT NULL,
    target_kind  text        NOT NULL,
    target_id    text        NOT NULL,
    outcome      text        NOT NULL,
    detail       text,
    before_state jsonb,
    after_state  jsonb,
    os_user      text,
    os_host      text,
    db_role      text        NOT NULL DEFAULT session_user,
    reason       text,
    filter       text,
    undoes       bigint      REFERENCES horsies_operator_actions (id) ON DELETE SET NULL,
    CONSTRAINT ck_horsies_operator_actions_outcome CHECK (outcome IN ('applied', 'refused'))
);

-- Earlier versions had fewer kinds.
ALTER TABLE horsies_operator_actions DROP CONSTRAINT IF EXISTS ck_horsies_operator_actions_target_kind;
ALTER TABLE horsies_operator_actions ADD CONSTRAINT ck_horsies_operator_actions_target_kind
    CHECK (target_kind IN ('task', 'workflow', 'node', 'worker', 'queue', 'schedule', 'session'));

CREATE INDEX IF NOT EXISTS ix_horsies_operator_actions_latest
    ON horsies_operator_actions (acted_at DESC, id DESC);
CREATE INDEX IF NOT EXISTS ix_horsies_operator_actions_target
    ON horsies_operator_actions (target_kind, target_id, id DESC);
CREATE INDEX IF NOT EXISTS ix_horsies_operator_actions_operation
    ON horsies_operator_actions (operation_id);
-- "has this been undone?"; most rows undo nothing
CREATE INDEX IF NOT EXISTS ix_horsies_operator_actions_undoes
    ON horsies_operator_actions (undoes) WHERE undoes IS NOT NULL;

-- Who acted, and when, is what the server knows: the role that logged in, whatever role it has taken since, and the time
-- of its statement. os_user and os_host are what the client says.
CREATE OR REPLACE FUNCTION horsies_sign_operator_action() RETURNS trigger AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        NEW.acted_at := statement_timestamp();
        NEW.db_role := session_user;
    ELSE
        NEW.acted_at := OLD.acted_at;
        NEW.db_role := OLD.db_role;
    END IF;
    RETURN NEW;
END;
$$ LANGUAGE plpgsql;

CREATE OR REPLACE TRIGGER horsies_operator_action_sign_trigger
    BEFORE INSERT OR UPDATE ON horsies_operator_actions
    FOR EACH ROW EXECUTE FUNCTION horsies_sign_operator_action();

-- A queue without a row is not paused.
CREATE TABLE IF NOT EXISTS horsies_queue_state (
    queue_name varchar(100) PRIMARY KEY,
    paused_at  timestamptz,
    paused_by  text,
    reason     text,
    updated_at timestamptz  NOT NULL DEFAULT now()
);

-- A worker without a row has no orders.
CREATE TABLE IF NOT EXISTS horsies_worker_orders (
    worker_id      varchar(255) PRIMARY KEY,
    draining_since timestamptz,
    ordered_by     text,
    reason         text,
    updated_at     timestamptz  NOT NULL DEFAULT now()
);

-- An operator who looks at a running task, until it is closed: what is asked, and the worker's answer. Not logged: after
-- a crash of the server the console asks anew.
CREATE UNLOGGED TABLE IF NOT EXISTS horsies_looks (
    look_id     uuid         PRIMARY KEY,
    task_id     varchar(36)  NOT NULL,
    worker_id   varchar(255) NOT NULL,
    claimed_at  timestamptz  NOT NULL,
    kind        text         NOT NULL,
    with_locals boolean      NOT NULL DEFAULT false,
    after_line  bigint       NOT NULL DEFAULT 0,
    asked_at    timestamptz  NOT NULL DEFAULT now(),
    answered_at timestamptz,
    answer      jsonb,
    CONSTRAINT ck_horsies_looks_kind CHECK (kind IN ('stack', 'output'))
);
CREATE INDEX IF NOT EXISTS ix_horsies_looks_worker ON horsies_looks (worker_id);
