-- the claim under caps, one round trip that holds the locks of its caps, run once by upgrade.py

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
                    ORDER BY priority, enqueued_at, id
                    LIMIT free FOR NO KEY UPDATE SKIP LOCKED
               ))
        RETURNING task.*;
        GET DIAGNOSTICS taken = ROW_COUNT;
        room := room - taken;
    END LOOP;
END;
$$ LANGUAGE plpgsql;
