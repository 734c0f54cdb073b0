-- a claim reads what it takes, not what waits before it; run once by upgrade.py (see tests/bench/test_claim_rate.py)

-- Since when the pause of its workflow keeps this task in the queue. The triggers below write it; NULL says nothing: a task
-- that was locked at the pause has none, so a claim still asks horsies_is_held.
ALTER TABLE horsies_tasks ADD COLUMN IF NOT EXISTS workflow_paused_at timestamptz;

-- claimed_at of the newest claim that has no place under the caps before it starts: that of a worker that prefetches. Any other
-- claim counts, so both kinds share one cap. Nothing takes the mark off: claimed_at of a later claim differs.
ALTER TABLE horsies_tasks ADD COLUMN IF NOT EXISTS uncounted_claim_at timestamptz;

-- The first due tasks of one name. In ix_horsies_tasks_ready they stand behind all that cannot run at this moment: 100 000
-- tasks of a name that no worker knows made 32 tasks/s of 1 455. An entry is written when a task is sent or goes back to the
-- queue, not by claim, start or finish.
-- In a CASE, here and where they are asked for: where statistics are from a quiet hour all indexes of waiting tasks look empty, and
-- a plan might take ix_horsies_tasks_ready instead, whose predicate cannot be proved from a CASE.
CREATE INDEX IF NOT EXISTS ix_horsies_tasks_ready_by_name
    ON horsies_tasks (queue_name, task_name, priority, (GREATEST(enqueued_at, next_retry_at)), id)
    WHERE CASE WHEN status = 'PENDING' THEN good_until IS NULL AND workflow_paused_at IS NULL END;
-- Those with a deadline by themselves: of these alone the first ones may be past it.
CREATE INDEX IF NOT EXISTS ix_horsies_tasks_ready_until
    ON horsies_tasks (queue_name, task_name, priority, (GREATEST(enqueued_at, next_retry_at)), id)
    WHERE CASE WHEN status = 'PENDING' THEN good_until IS NOT NULL AND workflow_paused_at IS NULL END;

-- By keys alone, through arrays: a join that was planned while the tables were empty reads all tasks for each workflow.
CREATE OR REPLACE FUNCTION horsies_mark_paused_tasks() RETURNS trigger SET enable_seqscan = off SET jit = off AS $$
BEGIN
    IF TG_OP = 'UPDATE' AND NEW.status = 'PAUSED' THEN
        -- A locked row is being claimed or ended: it is not waited for, and needs no mark.
        UPDATE horsies_tasks
           SET workflow_paused_at = statement_timestamp()
         WHERE id = ANY (ARRAY(SELECT id FROM horsies_tasks
                                WHERE id = ANY (ARRAY(SELECT task_id FROM horsies_workflow_tasks
                                                       WHERE workflow_id = NEW.id
                                                         AND CASE WHEN status IN ('PENDING', 'READY', 'ENQUEUED',
                                                                                  'RUNNING') THEN true END))
                                  AND CASE WHEN status = 'PENDING' THEN true END
                                  FOR NO KEY UPDATE SKIP LOCKED));
    ELSE
        UPDATE horsies_tasks
           SET workflow_paused_at = NULL
         WHERE id = ANY (ARRAY(SELECT task_id FROM horsies_workflow_tasks WHERE workflow_id = OLD.id))
           AND workflow_paused_at IS NOT NULL;
    END IF;
    RETURN COALESCE(NEW, OLD);
END;
$$ LANGUAGE plpgsql;

-- Triggers, not the statements that pause and resume: an operator may do that by hand, or with upstream's tools.
CREATE OR REPLACE TRIGGER horsies_workflow_pause_trigger
    AFTER UPDATE ON horsies_workflows
    FOR EACH ROW WHEN (OLD.status IS DISTINCT FROM NEW.status AND (OLD.status = 'PAUSED' OR NEW.status = 'PAUSED'))
    EXECUTE FUNCTION horsies_mark_paused_tasks();
-- Before, for its nodes go with it.
CREATE OR REPLACE TRIGGER horsies_workflow_delete_trigger
    BEFORE DELETE ON horsies_workflows
    FOR EACH ROW WHEN (OLD.status = 'PAUSED')
    EXECUTE FUNCTION horsies_mark_paused_tasks();

-- A task that comes back to the queue during the pause gets the mark at once: it stands among the first ones, and asking
-- horsies_is_held for 150 of them cost claims a sixth of their rate. Where its workflow is being changed it gets none.
CREATE OR REPLACE FUNCTION horsies_mark_returned_task() RETURNS trigger AS $$
BEGIN
    PERFORM FROM horsies_workflow_tasks node
            JOIN horsies_workflows workflow ON workflow.id = node.workflow_id
           WHERE node.task_id = NEW.id AND CASE WHEN workflow.status = 'PAUSED' THEN true END
             -- A resume that commits first is seen, and one that comes later finds the mark.
             FOR SHARE OF workflow SKIP LOCKED;
    NEW.workflow_paused_at := CASE WHEN FOUND THEN statement_timestamp() END;
    RETURN NEW;
END;
$$ LANGUAGE plpgsql;

CREATE OR REPLACE TRIGGER horsies_task_return_trigger
    BEFORE UPDATE ON horsies_tasks
    FOR EACH ROW WHEN (NEW.status = 'PENDING' AND OLD.status <> 'PENDING' AND NEW.is_workflow_task)
    EXECUTE FUNCTION horsies_mark_returned_task();

-- The rule: whether a PENDING task of a queue that is not paused may run now. One SELECT, so that the plan of a statement that
-- asks takes it in; in a CASE, because an AND may ask in any order, and the last question is for tasks of workflows only.
CREATE OR REPLACE FUNCTION horsies_may_run(
    id varchar, enqueued_at timestamptz, next_retry_at timestamptz, good_until timestamptz, is_workflow_task boolean,
    workflow_paused_at timestamptz
) RETURNS boolean STABLE LANGUAGE sql AS $$
    SELECT enqueued_at <= statement_timestamp()
       AND (next_retry_at IS NULL OR next_retry_at <= statement_timestamp())
       AND (good_until IS NULL OR good_until > statement_timestamp())
       AND CASE WHEN is_workflow_task THEN workflow_paused_at IS NULL AND NOT horsies_is_held(id) ELSE true END
$$;

-- The next two functions serve horsies_claimable alone. They see what the statement sees, and horsies_claimable locks and judges
-- what they find. Planned without statistics: an index gives their rows in order, and a plan made for an empty table would sort
-- all that wait.

-- Tasks with a deadline, of one queue: all of the first `room` that may run now are among the rows returned.
-- The first ones may be past it, and the many that are not may begin behind them. So it looks from both ends, at 16 times as
-- much in each round: first in the order of the queue, then at what is not past its deadline. It reads in all little more than
-- the shorter of the two, whichever that is; the sweep makes the other one shorter.
CREATE OR REPLACE FUNCTION horsies_ready_until(queue text, names text[], room integer)
    RETURNS TABLE (task_id varchar, task_priority integer, task_enqueued_at timestamptz) STABLE
    SET jit = off SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    moment constant timestamptz := statement_timestamp();
    depth      bigint := 64;
    ids        varchar[];
    priorities integer[];
    times      timestamptz[];
    complete   boolean;
BEGIN
    LOOP
        WITH RECURSIVE level (name, priority) AS (
            SELECT known.name, lowest.priority
              FROM unnest(names) AS known (name)
             CROSS JOIN LATERAL (SELECT priority FROM horsies_tasks
                                  WHERE CASE WHEN status = 'PENDING' THEN good_until IS NOT NULL AND workflow_paused_at IS NULL END
                                    AND queue_name = queue AND task_name = known.name
                                  ORDER BY priority LIMIT 1) lowest
             UNION ALL
            SELECT level.name, higher.priority
              FROM level
             CROSS JOIN LATERAL (SELECT task.priority FROM horsies_tasks task
                                  WHERE CASE WHEN status = 'PENDING' THEN good_until IS NOT NULL AND workflow_paused_at IS NULL END
                                    AND queue_name = queue AND task_name = level.name AND task.priority > level.priority
                                  ORDER BY task.priority LIMIT 1) higher
        ), seen AS (
            SELECT level.priority, due.id, due.enqueued_at, due.runs,
                   count(*) OVER of_level < depth OR count(*) FILTER (WHERE runs) OVER of_level >= room AS complete
              FROM level
             CROSS JOIN LATERAL (
                   SELECT id, task.enqueued_at,
                          horsies_may_run(id, task.enqueued_at, next_retry_at, good_until, is_workflow_task,
                                          workflow_paused_at) AS runs
                     FROM horsies_tasks task
                    WHERE CASE WHEN status = 'PENDING' THEN good_until IS NOT NULL AND workflow_paused_at IS NULL END
                      AND queue_name = queue AND task_name = level.name AND task.priority = level.priority
                      AND GREATEST(task.enqueued_at, next_retry_at) <= moment
                    ORDER BY GREATEST(task.enqueued_at, next_retry_at), id
                    LIMIT depth) due
            WINDOW of_level AS (PARTITION BY level.name, level.priority)
        )
        SELECT array_agg(id) FILTER (WHERE runs), array_agg(priority) FILTER (WHERE runs),
               array_agg(enqueued_at) FILTER (WHERE runs), COALESCE(bool_and(seen.complete), true)
          INTO ids, priorities, times, complete
          FROM seen;
        EXIT WHEN complete;

        WITH alive AS MATERIALIZED (
            SELECT id, task.priority, task.enqueued_at, next_retry_at, good_until, queue_name, task_name,
                   is_workflow_task, workflow_paused_at
              FROM horsies_tasks task
             WHERE status = 'PENDING' AND good_until IS NOT NULL AND good_until > moment
             ORDER BY good_until
             LIMIT depth
        ), ready AS (
            SELECT alive.id, alive.priority, alive.enqueued_at
              FROM alive
             WHERE queue_name = queue AND task_name = ANY (names)
               AND horsies_may_run(alive.id, alive.enqueued_at, next_retry_at, good_until, is_workflow_task,
                                   workflow_paused_at)
             ORDER BY alive.priority, alive.enqueued_at, alive.id
             LIMIT room
        )
        SELECT array_agg(id), array_agg(priority), array_agg(enqueued_at), (SELECT count(*) FROM alive) < depth
          INTO ids, priorities, times, complete
          FROM ready;
        EXIT WHEN complete;
        depth := 16 * depth;
    END LOOP;
    RETURN QUERY SELECT * FROM unnest(ids, priorities, times);
END;
$$ LANGUAGE plpgsql;

-- The first `room` tasks of these names that may run now, in the order of the queue. It costs one probe of the index for each
-- name, 4 to 6 µs, and one more for each priority of a name whose first tasks wait for their time.
CREATE OR REPLACE FUNCTION horsies_ready_by_name(queue text, names text[], room integer) RETURNS text[] STABLE
    SET jit = off SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    moment constant timestamptz := statement_timestamp();
    deadlines boolean := EXISTS (SELECT FROM horsies_tasks
                                  WHERE CASE WHEN status = 'PENDING' THEN good_until IS NOT NULL AND workflow_paused_at IS NULL END
                                    AND queue_name = queue);
    found text[];
BEGIN
    WITH RECURSIVE by_name AS MATERIALIZED (
        SELECT known.name, first.*, bool_and(first.runs) OVER (PARTITION BY known.name) AS all_run
          FROM unnest(names) AS known (name)
         CROSS JOIN LATERAL (
               SELECT id, priority, enqueued_at,
                      horsies_may_run(id, enqueued_at, next_retry_at, good_until, is_workflow_task, workflow_paused_at) AS runs
                 FROM horsies_tasks
                WHERE CASE WHEN status = 'PENDING' THEN good_until IS NULL AND workflow_paused_at IS NULL END
                  AND queue_name = queue AND task_name = known.name
                ORDER BY priority, GREATEST(enqueued_at, next_retry_at), id
                LIMIT room) first
    ), level (name, priority) AS (
        SELECT name, min(priority) FROM by_name WHERE NOT all_run GROUP BY name
         UNION ALL
        SELECT level.name, higher.priority
          FROM level
         CROSS JOIN LATERAL (SELECT task.priority FROM horsies_tasks task
                              WHERE CASE WHEN status = 'PENDING' THEN good_until IS NULL AND workflow_paused_at IS NULL END
                                AND queue_name = queue AND task_name = level.name AND task.priority > level.priority
                              ORDER BY task.priority LIMIT 1) higher
    ), ready AS (
        SELECT id, priority, enqueued_at FROM by_name WHERE all_run
         UNION ALL
        SELECT due.id, level.priority, due.enqueued_at
          FROM level
         CROSS JOIN LATERAL (
               SELECT id, task.enqueued_at
                 FROM horsies_tasks task
                WHERE CASE WHEN status = 'PENDING' THEN good_until IS NULL AND workflow_paused_at IS NULL END
                  AND queue_name = queue AND task_name = level.name AND task.priority = level.priority
                  AND GREATEST(task.enqueued_at, next_retry_at) <= moment
                  AND horsies_may_run(id, task.enqueued_at, next_retry_at, good_until, is_workflow_task,
                                      workflow_paused_at)
                ORDER BY GREATEST(task.enqueued_at, next_retry_at), id
                LIMIT room) due
         UNION ALL
        SELECT * FROM horsies_ready_until(queue, names, room) WHERE deadlines
    )
    SELECT array_agg(id) INTO found FROM (SELECT id FROM ready ORDER BY priority, enqueued_at, id LIMIT room) first_ones;
    RETURN found;
END;
$$ LANGUAGE plpgsql;

-- What is claimed next: the first `most`, at most 256, tasks of these names (NULL: any) in the order of the queue that may run,
-- locked; a row that another session has locked is left out, and nothing is found in a queue that is paused. `large`: more than
-- 64 kB of arguments.
-- It looks at the first tasks of the queue, a few more than it wants, which is all it takes unless many of them cannot run now;
-- only then it looks for each name, and also tells which tasks come `after` those found. A caller that gives these back as
-- `following` in its next claim, within the moment in which the order is still the same, saves that claim the search.
CREATE OR REPLACE FUNCTION horsies_claimable(
    queue text, names text[], most integer, following text[], OUT ids text[], OUT large boolean[], OUT after text[]
) AS $$
DECLARE
    width  constant integer := LEAST(2 * most + 16, 256);
    room   integer;
    found  text[] := following;
BEGIN
    most := LEAST(most, 256);
    IF cardinality(found) > 0 THEN
        room := 0;
    ELSE
        room := most + 16;
        SELECT array_agg(one.id), array_agg(one.large)
          INTO ids, large
          FROM (SELECT task.id,
                       COALESCE(octet_length(task.args), 0) + COALESCE(octet_length(task.kwargs), 0) > 65536 AS large
                  FROM (SELECT *
                          FROM (SELECT ctid AS place, priority, enqueued_at, id
                                  FROM horsies_tasks
                                 WHERE status = 'PENDING' AND queue_name = queue
                                   AND NOT EXISTS (SELECT FROM horsies_queue_state
                                                    WHERE queue_name = queue AND paused_at IS NOT NULL)
                                 ORDER BY priority, enqueued_at, id
                                 -- A literal: for a variable alone the generic plan is a sort of all that wait.
                                 LIMIT 256) head
                         ORDER BY priority, enqueued_at, id
                         LIMIT width) first
                  -- Found again by its place: by its id it would take 2 µs more for each.
                  JOIN horsies_tasks task ON task.ctid = first.place
                 WHERE task.status = 'PENDING' AND (names IS NULL OR task.task_name = ANY (names))
                   AND horsies_may_run(task.id, task.enqueued_at, task.next_retry_at, task.good_until,
                                       task.is_workflow_task, task.workflow_paused_at)
                 ORDER BY first.priority, first.enqueued_at, first.id
                 LIMIT most FOR NO KEY UPDATE OF task SKIP LOCKED) one;
        IF cardinality(ids) >= most THEN
            RETURN;
        END IF;
        IF NOT EXISTS (SELECT FROM (SELECT FROM horsies_tasks WHERE status = 'PENDING' AND queue_name = queue
                                     ORDER BY priority, enqueued_at, id LIMIT 256) head OFFSET width - 1)
        THEN
            RETURN;  -- that was the whole queue
        END IF;
        IF names IS NULL THEN
            names := ARRAY(SELECT DISTINCT task_name FROM horsies_tasks WHERE status = 'PENDING' AND queue_name = queue);
        END IF;
        found := horsies_ready_by_name(queue, names, room);
    END IF;
    LOOP
        SELECT array_agg(one.id), array_agg(one.large), found[max(one.number) + 1:]
          INTO ids, large, after
          FROM (SELECT task.id, first.number,
                       COALESCE(octet_length(task.args), 0) + COALESCE(octet_length(task.kwargs), 0) > 65536 AS large
                  FROM unnest(found) WITH ORDINALITY AS first (id, number)
                  JOIN horsies_tasks task ON task.id = first.id
                 WHERE NOT EXISTS (SELECT FROM horsies_queue_state WHERE queue_name = queue AND paused_at IS NOT NULL)
                       -- By their ids only: with these questions in sight a plan may read the whole queue for them.
                   AND CASE WHEN task.status = 'PENDING' AND task.queue_name = queue
                            THEN horsies_may_run(task.id, task.enqueued_at, task.next_retry_at, task.good_until,
                                                 task.is_workflow_task, task.workflow_paused_at) END
                 ORDER BY first.number
                 LIMIT most FOR NO KEY UPDATE OF task SKIP LOCKED) one;
        EXIT WHEN cardinality(ids) >= most OR COALESCE(cardinality(found), 0) < room;
        room := 8 * room + most + 16;  -- other workers are claiming these at this moment
        found := horsies_ready_by_name(queue, names, room);
    END LOOP;
END;
$$ LANGUAGE plpgsql;

DROP FUNCTION IF EXISTS horsies_held_tasks();

-- Claims that have a place under a cap and have expired go back to the queue, NULL: of any queue; how many there were, at most
-- 500. Only so they lose their place, not by the time alone: a start may have found its lease valid and now wait for the row or
-- for its commit. Its lock on the row decides: a row that is locked is left out and keeps its place.
CREATE OR REPLACE FUNCTION horsies_release_places(queue text, moment timestamptz) RETURNS integer AS $$
DECLARE
    released text[];
BEGIN
    WITH released AS (
        UPDATE horsies_tasks
           SET status = 'PENDING', claimed = false, claimed_at = NULL, claimed_by_worker_id = NULL, claim_expires_at = NULL,
               updated_at = statement_timestamp()
         WHERE id = ANY (ARRAY(SELECT id FROM horsies_tasks
                                WHERE status = 'CLAIMED' AND (queue IS NULL OR queue_name = queue)
                                  AND uncounted_claim_at IS DISTINCT FROM claimed_at AND claim_expires_at < moment
                                LIMIT 500 FOR NO KEY UPDATE SKIP LOCKED))
        RETURNING queue_name
    )
    SELECT array_agg(queue_name) INTO released FROM released;
    -- As in release.sql.
    PERFORM pg_notify('task_queue_' || name, 'capacity:released')
       FROM (SELECT DISTINCT unnest(released) AS name) queues WHERE octet_length(name) <= 52;
    RETURN COALESCE(cardinality(released), 0);
END;
$$ LANGUAGE plpgsql;

-- As before, but for what may be claimed, for what it tells: a row without id for each queue whose cap has no room left, one
-- without queue where the cluster's has none; and for what has a place under a cap: a task that runs, and a claim until its
-- row has left CLAIMED, unless `hard` was false for it.
-- A statement sees what was committed when it began: one that waits for a lock and then counts would miss the claims of the
-- session that held the lock before. In this function each statement begins anew.
CREATE OR REPLACE FUNCTION horsies_claim_capped(
    worker_id text, queues text[], caps integer[], budget integer, cluster_cap integer, hard boolean, lease interval,
    task_names text[]
) RETURNS SETOF horsies_tasks AS $$
DECLARE
    room         integer := budget;
    cluster_room integer;
    queue_room   integer;
    used         integer;
    expired      integer;
    taken        integer;
    chosen       text[];
    busy         text[] := '{}';
    queue        record;
    guard        record;
    full_cap     horsies_tasks;
    moment       timestamptz;
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'a claim under caps needs READ COMMITTED, not %', upper(current_setting('transaction_isolation'))
            USING HINT = 'ALTER ROLE <role of the workers> SET default_transaction_isolation TO ''read committed''';
    END IF;
    -- Nothing depends on a claim that a crash of the server undoes.
    PERFORM set_config('synchronous_commit', 'off', true);

    -- Most wake-ups find nothing, and those shall hold up no other claim.
    FOR queue IN SELECT name FROM unnest(queues) AS name LOOP
        IF EXISTS (SELECT FROM horsies_tasks WHERE status = 'PENDING' AND queue_name = queue.name)
           AND NOT EXISTS (SELECT FROM horsies_queue_state WHERE queue_name = queue.name AND paused_at IS NOT NULL)
        THEN
            busy := busy || queue.name;
        END IF;
    END LOOP;
    IF busy = '{}' THEN
        RETURN;
    END IF;

    -- Every claim takes them in the order of the keys, so that no two wait for each other.
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
        SELECT count(*), count(*) FILTER (WHERE status = 'CLAIMED' AND claim_expires_at < moment) INTO used, expired
          FROM horsies_tasks
         WHERE status IN ('CLAIMED', 'RUNNING') AND (status = 'RUNNING' OR uncounted_claim_at IS DISTINCT FROM claimed_at);
        IF expired > 0 AND cluster_cap - used < room THEN
            used := used - horsies_release_places(NULL, moment);
        END IF;
        cluster_room := cluster_cap - used;
        room := LEAST(room, cluster_room);
    END IF;

    FOR queue IN
        SELECT name, cap FROM unnest(queues, caps) WITH ORDINALITY AS limited (name, cap, number)
         WHERE name = ANY (busy) ORDER BY number
    LOOP
        EXIT WHEN room <= 0;
        queue_room := NULL;
        IF queue.cap IS NOT NULL THEN
            SELECT count(*), count(*) FILTER (WHERE status = 'CLAIMED' AND claim_expires_at < moment) INTO used, expired
              FROM horsies_tasks
             WHERE queue_name = queue.name AND status IN ('CLAIMED', 'RUNNING')
               AND (status = 'RUNNING' OR uncounted_claim_at IS DISTINCT FROM claimed_at);
            IF expired > 0 AND queue.cap - used < room THEN
                used := used - horsies_release_places(queue.name, moment);
            END IF;
            queue_room := queue.cap - used;
        END IF;
        IF queue_room IS NULL OR queue_room > 0 THEN
            chosen := (SELECT ids FROM horsies_claimable(queue.name, task_names, LEAST(room, queue_room), NULL));
            RETURN QUERY
            UPDATE horsies_tasks task
               SET status = 'CLAIMED', claimed = true, claimed_by_worker_id = worker_id, claimed_at = moment,
                   claim_expires_at = moment + lease, updated_at = moment,
                   uncounted_claim_at = CASE WHEN NOT hard THEN moment END
             WHERE task.id = ANY (chosen)
            RETURNING task.*;
            GET DIAGNOSTICS taken = ROW_COUNT;
            room := room - taken;
            queue_room := queue_room - taken;
            cluster_room := cluster_room - taken;
        END IF;
        IF queue_room <= 0 THEN
            full_cap.queue_name := queue.name;
            RETURN NEXT full_cap;
        END IF;
    END LOOP;
    IF cluster_room <= 0 THEN
        full_cap.queue_name := NULL;
        RETURN NEXT full_cap;
    END IF;
END;
$$ LANGUAGE plpgsql;

-- Which of these claims may run now, where they have no place under the caps yet: as many of each capped queue as its cap has
-- room, the first ones first, and what runs already. It locks the caps until the statement that starts them has ended.
CREATE OR REPLACE FUNCTION horsies_room_to_run(task_ids text[], queues text[], capped text[], caps integer[])
    RETURNS SETOF varchar AS $$
DECLARE
    queue record;
    guard record;
BEGIN
    FOR guard IN
        SELECT DISTINCT hashtextextended('horsies-cap:queue:' || name, 0) AS key
          FROM unnest(capped) AS name WHERE name = ANY (queues) ORDER BY key
    LOOP
        PERFORM pg_advisory_xact_lock(guard.key);
    END LOOP;
    RETURN QUERY
    SELECT task.id FROM horsies_tasks task
     WHERE task.id = ANY (task_ids) AND (task.queue_name <> ALL (capped) OR CASE WHEN status = 'RUNNING' THEN true END);
    FOR queue IN SELECT name, cap FROM unnest(capped, caps) AS limited (name, cap) WHERE name = ANY (queues) LOOP
        RETURN QUERY
        SELECT task.id FROM horsies_tasks task
         WHERE task.id = ANY (task_ids) AND CASE WHEN status = 'CLAIMED' THEN task.queue_name = queue.name END
         ORDER BY task.priority, task.enqueued_at, task.id
         LIMIT GREATEST(queue.cap - (SELECT count(*) FROM horsies_tasks
                                      WHERE queue_name = queue.name AND status IN ('CLAIMED', 'RUNNING')
                                        AND (status = 'RUNNING'
                                             OR uncounted_claim_at IS DISTINCT FROM claimed_at AND id <> ALL (task_ids))), 0);
    END LOOP;
END;
$$ LANGUAGE plpgsql;

-- Workflows that are paused already.
UPDATE horsies_tasks task
   SET workflow_paused_at = statement_timestamp()
  FROM horsies_workflow_tasks node
  JOIN horsies_workflows workflow ON workflow.id = node.workflow_id
 WHERE workflow.status = 'PAUSED' AND node.task_id = task.id AND task.status = 'PENDING'
   AND node.status IN ('PENDING', 'READY', 'ENQUEUED', 'RUNNING');
