-- what the advance of workflows reads, and the claim under caps that leaves tasks of paused ones, run once by upgrade.py

-- Upstream has an index for each column that it looks at. Of these, the first is the head of uq_horsies_workflow_task_index,
-- and was taken for a node where statistics were from a quiet hour: all nodes of its workflow were read. Node ids and indexes of
-- dependencies are the same in all workflows of a kind, so nobody looks for them alone. Each of the four updates in the life of
-- a node wrote them all again: 5 950 bytes of WAL for a node and its task, 4 570 without.
DROP INDEX IF EXISTS ix_horsies_workflow_tasks_workflow_id, ix_horsies_workflow_tasks_node_id,
    idx_horsies_workflow_tasks_deps;

-- The nodes of a workflow that are not over: those that may wait for what has ended, and whether there are any at all.
CREATE INDEX IF NOT EXISTS ix_horsies_workflow_tasks_open
    ON horsies_workflow_tasks (workflow_id, task_index)
    WHERE status IN ('PENDING', 'READY', 'ENQUEUED', 'RUNNING');
-- Nodes whose child is to be built, which every worker looks for every five seconds.
CREATE INDEX IF NOT EXISTS ix_horsies_workflow_tasks_childless
    ON horsies_workflow_tasks (workflow_id, task_index)
    WHERE is_subworkflow AND sub_workflow_id IS NULL AND status = 'READY';

-- Lists of workflows, newest first, page by page; and the same for those that are not over or ended badly, which a walk through
-- a million that went well would take a second to find. The first costs a workflow 260 bytes of WAL from its start to its end
-- (1 440 without), the second 110, the third only what ends badly.
CREATE INDEX IF NOT EXISTS ix_horsies_workflows_created ON horsies_workflows (created_at, id);
CREATE INDEX IF NOT EXISTS ix_horsies_workflows_live_created
    ON horsies_workflows (created_at, id) WHERE status IN ('PENDING', 'RUNNING', 'PAUSED');
CREATE INDEX IF NOT EXISTS ix_horsies_workflows_unsuccessful_created
    ON horsies_workflows (created_at, id) WHERE status IN ('FAILED', 'CANCELLED');

-- Whether the workflow of this task is paused: it stays in the queue, linked to its node, until that is resumed. A function,
-- for a subquery would be set up by each claim and start, although none of their tasks may belong to a workflow: 4 to 6 % more
-- of a claim or start of one or ten tasks.
CREATE OR REPLACE FUNCTION horsies_is_held(task varchar) RETURNS boolean STABLE COST 10 AS $$
BEGIN
    RETURN EXISTS (SELECT FROM horsies_workflow_tasks node
                     JOIN horsies_workflows workflow ON workflow.id = node.workflow_id
                    WHERE node.task_id = task AND workflow.status = 'PAUSED');
END;
$$ LANGUAGE plpgsql;

-- The tasks of all that is paused, for a claim that passes by many of them: it asks once, and a thousand at the head of the queue
-- cost it 0.9 ms instead of 8.8. Of more than a hundred paused workflows, which may have nothing in the queue at all, it gets
-- a single NULL, and asks for each task.
CREATE OR REPLACE FUNCTION horsies_held_tasks() RETURNS SETOF varchar STABLE COST 10 ROWS 100 AS $$
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
$$ LANGUAGE plpgsql;

-- As before, but for the tasks of workflows that are paused.
-- A statement sees what was committed when it began: one that waits for a lock and then counts would miss the claims of
-- whoever held the lock before. In this function each statement begins anew.
CREATE OR REPLACE FUNCTION horsies_claim_capped(
    worker_id text, queues text[], caps integer[], budget integer, cluster_cap integer, hard boolean, lease interval,
    task_names text[]
) RETURNS SETOF horsies_tasks AS $$
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
$$ LANGUAGE plpgsql;
