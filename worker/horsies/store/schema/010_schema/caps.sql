-- claims and starts under the caps of queues and of the cluster; a part of version 10, run by upgrade.py

-- A claim under caps: one round trip, which holds the locks of its caps. Besides the claimed tasks it returns a row without id for
-- each queue whose cap has no room left, and one without queue where the cluster's cap has none.
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
        cluster_room := cluster_cap - (
            SELECT count(*) FROM horsies_tasks
             WHERE status IN ('CLAIMED', 'RUNNING')
               AND (status = 'RUNNING' OR hard AND (claim_expires_at IS NULL OR claim_expires_at >= moment)));
        room := LEAST(room, cluster_room);
    END IF;

    FOR queue IN
        SELECT name, cap FROM unnest(queues, caps) WITH ORDINALITY AS limited (name, cap, number)
         WHERE name = ANY (busy) ORDER BY number
    LOOP
        EXIT WHEN room <= 0;
        queue_room := NULL;
        IF queue.cap IS NOT NULL THEN
            queue_room := queue.cap - (
                SELECT count(*) FROM horsies_tasks
                 WHERE queue_name = queue.name AND status IN ('CLAIMED', 'RUNNING')
                   AND (status = 'RUNNING' OR hard AND (claim_expires_at IS NULL OR claim_expires_at >= moment)));
        END IF;
        IF queue_room IS NULL OR queue_room > 0 THEN
            chosen := (SELECT ids FROM horsies_claimable(queue.name, task_names, LEAST(room, queue_room), NULL));
            RETURN QUERY
            UPDATE horsies_tasks task
               SET status = 'CLAIMED', claimed = true, claimed_by_worker_id = worker_id, claimed_at = moment,
                   claim_expires_at = moment + lease, updated_at = moment
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

-- Which of these claims may run now, where claims do not count under caps: as many of each capped queue as its cap has room, the
-- first ones first, and what runs already. It locks the caps until the statement that starts them has ended.
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
                                      WHERE queue_name = queue.name AND status = 'RUNNING'), 0);
    END LOOP;
END;
$$ LANGUAGE plpgsql;
