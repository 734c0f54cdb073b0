-- workflows, their nodes, and the marks of tasks kept by a pause; a part of the schema, run by upgrade.py

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

CREATE INDEX IF NOT EXISTS ix_horsies_workflows_status
    ON horsies_workflows (status);
CREATE INDEX IF NOT EXISTS ix_horsies_workflows_parent_workflow_id
    ON horsies_workflows (parent_workflow_id);
CREATE INDEX IF NOT EXISTS ix_horsies_workflows_root_workflow_id
    ON horsies_workflows (root_workflow_id);
CREATE INDEX IF NOT EXISTS ix_horsies_workflows_updated_at
    ON horsies_workflows (updated_at);

CREATE INDEX IF NOT EXISTS ix_horsies_workflow_tasks_status
    ON horsies_workflow_tasks (status);
CREATE INDEX IF NOT EXISTS ix_horsies_workflow_tasks_task_id
    ON horsies_workflow_tasks (task_id);
CREATE INDEX IF NOT EXISTS ix_horsies_workflow_tasks_sub_workflow_id
    ON horsies_workflow_tasks (sub_workflow_id);
CREATE INDEX IF NOT EXISTS ix_horsies_workflows_finished
    ON horsies_workflows ((COALESCE(completed_at, updated_at, created_at)))
    WHERE status IN ('COMPLETED', 'FAILED', 'CANCELLED');

-- Open nodes of a workflow: those that may depend on an ended node, and whether there are any at all.
CREATE INDEX IF NOT EXISTS ix_horsies_workflow_tasks_open
    ON horsies_workflow_tasks (workflow_id, task_index)
    WHERE status IN ('PENDING', 'READY', 'ENQUEUED', 'RUNNING');
-- Nodes whose child is to be built, which every worker looks for every five seconds.
CREATE INDEX IF NOT EXISTS ix_horsies_workflow_tasks_childless
    ON horsies_workflow_tasks (workflow_id, task_index)
    WHERE is_subworkflow AND sub_workflow_id IS NULL AND status = 'READY';

-- Lists of workflows, newest first, page by page; and the same for those that are open or ended badly, for which a scan
-- through a million completed ones would take a second. The first costs a workflow 260 bytes of WAL from its start to
-- its end (1 440 without), the second 110, the third only those that end badly.
CREATE INDEX IF NOT EXISTS ix_horsies_workflows_created ON horsies_workflows (created_at, id);
CREATE INDEX IF NOT EXISTS ix_horsies_workflows_live_created
    ON horsies_workflows (created_at, id) WHERE status IN ('PENDING', 'RUNNING', 'PAUSED');
CREATE INDEX IF NOT EXISTS ix_horsies_workflows_unsuccessful_created
    ON horsies_workflows (created_at, id) WHERE status IN ('FAILED', 'CANCELLED');

CREATE OR REPLACE FUNCTION horsies_notify_workflow_changes() RETURNS trigger AS $$
BEGIN
    IF OLD.status::text != NEW.status::text AND NEW.status::text IN ('COMPLETED', 'FAILED', 'CANCELLED', 'PAUSED') THEN
        PERFORM pg_catalog.pg_notify('workflow_done', NEW.id::text);
    END IF;
    RETURN NEW;
END;
$$ LANGUAGE plpgsql;

CREATE OR REPLACE TRIGGER horsies_workflow_notify_trigger
    AFTER UPDATE ON horsies_workflows
    FOR EACH ROW EXECUTE FUNCTION horsies_notify_workflow_changes();

CREATE OR REPLACE FUNCTION horsies_notify_workflow_status() RETURNS trigger AS $$
BEGIN
    IF TG_OP = 'INSERT' OR OLD.status::text != NEW.status::text THEN
        PERFORM pg_catalog.pg_notify('horsies_workflow_status', NEW.id::text);
    END IF;
    RETURN NEW;
END;
$$ LANGUAGE plpgsql;

CREATE OR REPLACE TRIGGER horsies_workflow_status_notify_trigger
    AFTER INSERT OR UPDATE ON horsies_workflows
    FOR EACH ROW EXECUTE FUNCTION horsies_notify_workflow_status();

-- Whether the workflow of this task is paused: the task stays in the queue, linked to its node, until the resume. A
-- function, because a subquery would be set up by each claim and start, although none of their tasks may belong to a
-- workflow: 4 to 6 % more for a claim or start of one or ten tasks.
CREATE OR REPLACE FUNCTION horsies_is_held(task varchar) RETURNS boolean STABLE COST 10 AS $$
BEGIN
    RETURN EXISTS (SELECT FROM horsies_workflow_tasks node
                     JOIN horsies_workflows workflow ON workflow.id::text = node.workflow_id::text
                    WHERE node.task_id::text = task::text AND workflow.status::text = 'PAUSED');
END;
$$ LANGUAGE plpgsql;

-- By keys alone, through arrays: a join that was planned while the tables were empty reads all tasks for each workflow.
CREATE OR REPLACE FUNCTION horsies_mark_paused_tasks() RETURNS trigger SET enable_seqscan = off SET jit = off AS $$
BEGIN
    IF TG_OP = 'UPDATE' AND NEW.status::text = 'PAUSED' THEN
        -- A locked row is being claimed or ended: it is not waited for, and needs no mark.
        UPDATE horsies_tasks
           SET workflow_paused_at = statement_timestamp()
         WHERE id::text = ANY (ARRAY(SELECT id::text FROM horsies_tasks
                                WHERE id::text = ANY (ARRAY(SELECT task_id::text FROM horsies_workflow_tasks
                                                       WHERE workflow_id::text = NEW.id::text
                                                         AND CASE WHEN status::text IN ('PENDING', 'READY', 'ENQUEUED',
                                                                                  'RUNNING') THEN true END))
                                  AND CASE WHEN status::text = 'PENDING' THEN true END
                                  FOR NO KEY UPDATE SKIP LOCKED));
    ELSE
        UPDATE horsies_tasks
           SET workflow_paused_at = NULL
         WHERE id::text = ANY (ARRAY(SELECT task_id::text FROM horsies_workflow_tasks WHERE workflow_id::text = OLD.id::text))
           AND workflow_paused_at IS NOT NULL;
    END IF;
    RETURN COALESCE(NEW, OLD);
END;
$$ LANGUAGE plpgsql;

-- Triggers, because not only our statements pause and resume: an operator may do it in psql, or with upstream's tools.
CREATE OR REPLACE TRIGGER horsies_workflow_pause_trigger
    AFTER UPDATE ON horsies_workflows
    FOR EACH ROW WHEN (OLD.status::text IS DISTINCT FROM NEW.status::text
                       AND (OLD.status::text = 'PAUSED' OR NEW.status::text = 'PAUSED'))
    EXECUTE FUNCTION horsies_mark_paused_tasks();
-- Before the delete, which cascades to the nodes that lead to the tasks.
CREATE OR REPLACE TRIGGER horsies_workflow_delete_trigger
    BEFORE DELETE ON horsies_workflows
    FOR EACH ROW WHEN (OLD.status::text = 'PAUSED')
    EXECUTE FUNCTION horsies_mark_paused_tasks();

-- A task that is requeued during the pause gets the mark at once: it is among the first ones, and calling
-- horsies_is_held for 150 of them cost claims a sixth of their rate. If its workflow is being changed it gets none.
CREATE OR REPLACE FUNCTION horsies_mark_returned_task() RETURNS trigger AS $$
DECLARE
    paused timestamptz;
BEGIN
    SELECT statement_timestamp() INTO paused
      FROM horsies_workflow_tasks node
      JOIN horsies_workflows workflow ON workflow.id::text = node.workflow_id::text
     WHERE node.task_id::text = NEW.id::text AND CASE WHEN workflow.status::text = 'PAUSED' THEN true END
       -- A resume that commits first is seen here, and a later one finds the mark.
     LIMIT 1 FOR SHARE OF workflow SKIP LOCKED;
    IF paused IS NOT NULL OR NEW.workflow_paused_at IS NOT NULL THEN
        UPDATE horsies_tasks SET workflow_paused_at = paused WHERE id::text = NEW.id::text;
    END IF;
    RETURN NULL;
END;
$$ LANGUAGE plpgsql;

-- After the update: a BEFORE trigger locks each row once more before its condition is checked, 4 % of the server's time
-- for a finish with claim.
CREATE OR REPLACE TRIGGER horsies_task_return_trigger
    AFTER UPDATE ON horsies_tasks
    FOR EACH ROW WHEN (NEW.status::text = 'PENDING' AND OLD.status::text <> 'PENDING' AND NEW.is_workflow_task)
    EXECUTE FUNCTION horsies_mark_returned_task();

-- Existing tasks: older databases of upstream do not mark those of workflows, and our version 7 marked no pause. After
-- the triggers: CREATE TRIGGER waits for each transaction that pauses a workflow without them, so its tasks are found
-- here.
UPDATE horsies_tasks task
   SET is_workflow_task = true
  FROM horsies_workflow_tasks node
 WHERE node.task_id = task.id AND NOT task.is_workflow_task;
UPDATE horsies_tasks task
   SET workflow_paused_at = statement_timestamp()
  FROM horsies_workflow_tasks node
  JOIN horsies_workflows workflow ON workflow.id = node.workflow_id
 WHERE workflow.status = 'PAUSED' AND node.task_id = task.id AND task.status = 'PENDING' AND task.workflow_paused_at IS NULL
   AND node.status IN ('PENDING', 'READY', 'ENQUEUED', 'RUNNING');
