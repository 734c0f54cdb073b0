-- claims and starts under the caps of queues and of the cluster; a part of the schema, run by upgrade.py

-- Releases expired claims that have a place under a cap, at most 500, of any queue if NULL; returns their number. A
-- claim loses its place only through this, not by time alone: a start may have found its lease valid and now wait for
-- the row or for its commit. The start's lock on the row decides: a row that is locked is left out and keeps its place.
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
    -- As where a worker releases its claims.
    PERFORM pg_notify('task_queue_' || name, 'capacity:released')
       FROM (SELECT DISTINCT unnest(released) AS name) queues WHERE octet_length(name) <= 52;
    RETURN COALESCE(cardinality(released), 0);
END;
$$ LANGUAGE plpgsql;

-- A claim under caps: one round trip, which holds the locks of its caps. Besides the claimed tasks it returns a row
-- without id for each queue whose cap has no room left, and one without queue if the cluster's cap has none. A place
-- under a cap is taken by a task that runs, and by a claim until its row has left CLAIMED, unless `hard` was false for
-- it. A statement sees what was committed when it began: one that waits for a lock and then counts would miss the
-- claims of the session that held the lock before. In this function each statement begins anew.
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
    chosen       tid[];
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
    -- Asynchronous commit: nothing depends on a claim that is lost in a crash of the server.
    PERFORM set_config('synchronous_commit', 'off', true);

    -- Most wake-ups find nothing, and those must not delay other claims.
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

    -- Every claim takes them in the order of the keys, so that no two deadlock.
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
            chosen := (SELECT found_at FROM horsies_claimable(queue.name, task_names, LEAST(room, queue_room)));
            RETURN QUERY
            UPDATE horsies_tasks task
               SET status = 'CLAIMED', claimed = true, claimed_by_worker_id = worker_id, claimed_at = moment,
                   claim_expires_at = moment + lease, updated_at = moment,
                   uncounted_claim_at = CASE WHEN NOT hard THEN moment END
             WHERE task.ctid = ANY (chosen)
               -- Older minor releases of PostgreSQL lock the newest version of a row also where that is in another
               -- queue by now: an operator has just moved it.
               AND task.queue_name = queue.name
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

-- Which of these claims may run now, if they have no place under the caps yet: of each capped queue as many as its cap
-- has room for, in order, and those that run already. It locks the caps until the statement that starts them has ended.
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
