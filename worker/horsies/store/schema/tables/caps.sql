-- claims and starts under the caps of queues and of the cluster; a part of the schema, run by upgrade.py

-- What a claim or start under a cap locks: a row for each capped queue, and that of the cluster, whose name is empty. A
-- row, not an advisory lock: any role that may connect can hold each of those, and with it stop all claims. A row is
-- inserted by the first claim that needs it, locked without a new version, and never changed. Whoever deletes one makes
-- the next claim insert it anew.
CREATE TABLE IF NOT EXISTS horsies_caps (
    queue_name varchar(100) PRIMARY KEY
);

-- Locks the cap of this queue, which had no row a moment ago.
CREATE OR REPLACE FUNCTION horsies_lock_new_cap(queue text) RETURNS void AS $$
BEGIN
    LOOP
        INSERT INTO horsies_caps (queue_name) VALUES (queue) ON CONFLICT DO NOTHING;
        EXIT WHEN FOUND;
        PERFORM FROM horsies_caps WHERE queue_name::text = queue FOR NO KEY UPDATE;
        EXIT WHEN FOUND;
    END LOOP;
END;
$$ LANGUAGE plpgsql;

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
         WHERE id::text = ANY (ARRAY(SELECT id::text FROM horsies_tasks
                                WHERE status::text = 'CLAIMED' AND (queue IS NULL OR queue_name::text = queue)
                                  AND uncounted_claim_at IS DISTINCT FROM claimed_at AND claim_expires_at < moment
                                LIMIT 500 FOR NO KEY UPDATE SKIP LOCKED))
        RETURNING queue_name
    )
    SELECT pg_catalog.array_agg(queue_name) INTO released FROM released;
    -- As where a worker releases its claims.
    PERFORM pg_catalog.pg_notify('task_queue_' || name, 'capacity:released')
       FROM (SELECT DISTINCT pg_catalog.unnest(released) AS name) queues WHERE pg_catalog.octet_length(name) <= 52;
    RETURN COALESCE(pg_catalog.cardinality(released), 0);
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
    limited      text[] := CASE WHEN cluster_cap IS NOT NULL THEN '{""}' ELSE '{}' END;
    limit_of     text;
    queue        record;
    full_cap     horsies_tasks;
    moment       timestamptz;
BEGIN
    IF pg_catalog.current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'a claim under caps needs READ COMMITTED, not %',
            pg_catalog.upper(pg_catalog.current_setting('transaction_isolation'))
            USING HINT = 'ALTER ROLE <role of the workers> SET default_transaction_isolation TO ''read committed''';
    END IF;
    -- Asynchronous commit: nothing depends on a claim that is lost in a crash of the server.
    PERFORM pg_catalog.set_config('synchronous_commit', 'off', true);

    -- Most wake-ups find nothing, and those must not delay other claims.
    FOR place IN 1 .. pg_catalog.cardinality(queues) LOOP
        IF EXISTS (SELECT FROM horsies_tasks WHERE status::text = 'PENDING' AND queue_name::text = queues[place])
           AND NOT EXISTS (SELECT FROM horsies_queue_state
                            WHERE queue_name::text = queues[place] AND paused_at IS NOT NULL)
        THEN
            busy := pg_catalog.array_append(busy, queues[place]);
            IF caps[place] IS NOT NULL THEN
                limited := pg_catalog.array_append(limited, queues[place]);
            END IF;
        END IF;
    END LOOP;
    IF pg_catalog.cardinality(busy) = 0 THEN
        RETURN;
    END IF;

    -- Every claim and start locks them in the order of their names, so that no two deadlock.
    FOREACH limit_of IN ARRAY ARRAY(SELECT pg_catalog.unnest(limited) ORDER BY 1) LOOP
        PERFORM FROM horsies_caps WHERE queue_name::text = limit_of FOR NO KEY UPDATE;
        IF NOT FOUND THEN
            PERFORM horsies_lock_new_cap(limit_of);
        END IF;
    END LOOP;
    moment := clock_timestamp();

    IF cluster_cap IS NOT NULL THEN
        SELECT count(*), count(*) FILTER (WHERE status::text = 'CLAIMED' AND claim_expires_at < moment) INTO used, expired
          FROM horsies_tasks
         WHERE status::text IN ('CLAIMED', 'RUNNING')
           AND (status::text = 'RUNNING' OR uncounted_claim_at IS DISTINCT FROM claimed_at);
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
            SELECT count(*), count(*) FILTER (WHERE status::text = 'CLAIMED' AND claim_expires_at < moment) INTO used, expired
              FROM horsies_tasks
             WHERE queue_name::text = queue.name AND status::text IN ('CLAIMED', 'RUNNING')
               AND (status::text = 'RUNNING' OR uncounted_claim_at IS DISTINCT FROM claimed_at);
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
               AND task.queue_name::text = queue.name
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
    queue    record;
    limit_of text;
BEGIN
    -- As in horsies_claim_capped.
    FOREACH limit_of IN ARRAY ARRAY(SELECT DISTINCT name FROM pg_catalog.unnest(capped) AS name
                                     WHERE name = ANY (queues) ORDER BY name)
    LOOP
        PERFORM FROM horsies_caps WHERE queue_name::text = limit_of FOR NO KEY UPDATE;
        IF NOT FOUND THEN
            PERFORM horsies_lock_new_cap(limit_of);
        END IF;
    END LOOP;
    RETURN QUERY
    SELECT task.id FROM horsies_tasks task
     WHERE task.id::text = ANY (task_ids)
       AND (task.queue_name::text <> ALL (capped) OR CASE WHEN status::text = 'RUNNING' THEN true END);
    FOR queue IN SELECT name, cap FROM unnest(capped, caps) AS limited (name, cap) WHERE name = ANY (queues) LOOP
        RETURN QUERY
        SELECT task.id FROM horsies_tasks task
         WHERE task.id::text = ANY (task_ids) AND CASE WHEN status::text = 'CLAIMED' THEN task.queue_name::text = queue.name END
         ORDER BY task.priority, task.enqueued_at, task.id
         LIMIT GREATEST(queue.cap - (SELECT count(*) FROM horsies_tasks
                                      WHERE queue_name::text = queue.name AND status::text IN ('CLAIMED', 'RUNNING')
                                        AND (status::text = 'RUNNING'
                                             OR uncounted_claim_at IS DISTINCT FROM claimed_at
                                                AND id::text <> ALL (task_ids))), 0);
    END LOOP;
END;
$$ LANGUAGE plpgsql;
