-- which tasks may run and which of them are claimed next; a part of the schema, run by upgrade.py

-- The rule: whether a PENDING task of a queue that is not paused may run now. One expression, bound when it is created,
-- so that the planner inlines it into the calling statement, which it does not do with a function that has a
-- search_path; in a CASE, because an AND may be evaluated in any order, and the last condition is for tasks of workflows
-- only.
CREATE OR REPLACE FUNCTION horsies_may_run(
    id varchar, enqueued_at timestamptz, next_retry_at timestamptz, good_until timestamptz, is_workflow_task boolean,
    workflow_paused_at timestamptz
) RETURNS boolean STABLE LANGUAGE sql
    RETURN enqueued_at <= statement_timestamp()
       AND (next_retry_at IS NULL OR next_retry_at <= statement_timestamp())
       AND (good_until IS NULL OR good_until > statement_timestamp())
       AND CASE WHEN is_workflow_task THEN workflow_paused_at IS NULL AND NOT horsies_is_held(id) ELSE true END;

-- The next two functions serve horsies_claimable alone. They use the snapshot of the calling statement, and
-- horsies_claimable locks and checks the rows that they find. Planned without statistics: an index gives their rows in
-- order, and a plan made for an empty table would sort all waiting tasks.

-- Tasks with a deadline, of one queue: the first `room` that may run now are all among the rows returned. The first
-- tasks may be past their deadline, and many valid ones may follow them. So it searches from both ends, 16 times as far
-- in each round: in the order of the queue, and by deadline among those that are not past it. In all it reads little
-- more than the shorter of the two, whichever that is; the sweep shortens the other one.
CREATE OR REPLACE FUNCTION horsies_ready_until(queue text, names text[], room integer)
    RETURNS TABLE (place tid, task_id varchar, task_priority integer, task_enqueued_at timestamptz) STABLE
    SET jit = off SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    moment constant timestamptz := statement_timestamp();
    depth      bigint := 64;
    places     tid[];
    ids        varchar[];
    priorities integer[];
    times      timestamptz[];
    complete   boolean;
BEGIN
    LOOP
        WITH RECURSIVE level (name, priority) AS (
            SELECT known.name, lowest.priority
              FROM pg_catalog.unnest(names) AS known (name)
             CROSS JOIN LATERAL (SELECT priority FROM horsies_tasks
                                  WHERE CASE WHEN status::text = 'PENDING' THEN good_until IS NOT NULL AND workflow_paused_at IS NULL END
                                    AND queue_name::text = queue AND task_name::text = known.name
                                  ORDER BY priority LIMIT 1) lowest
             UNION ALL
            SELECT level.name, higher.priority
              FROM level
             CROSS JOIN LATERAL (SELECT task.priority FROM horsies_tasks task
                                  WHERE CASE WHEN status::text = 'PENDING' THEN good_until IS NOT NULL AND workflow_paused_at IS NULL END
                                    AND queue_name::text = queue AND task_name::text = level.name AND task.priority > level.priority
                                  ORDER BY task.priority LIMIT 1) higher
        ), seen AS (
            SELECT level.priority, due.found_at, due.id, due.enqueued_at, due.runs,
                   count(*) OVER of_level < depth OR count(*) FILTER (WHERE runs) OVER of_level >= room AS complete
              FROM level
             CROSS JOIN LATERAL (
                   SELECT task.ctid AS found_at, id, task.enqueued_at,
                          horsies_may_run(id, task.enqueued_at, next_retry_at, good_until, is_workflow_task,
                                          workflow_paused_at) AS runs
                     FROM horsies_tasks task
                    WHERE CASE WHEN status::text = 'PENDING' THEN good_until IS NOT NULL AND workflow_paused_at IS NULL END
                      AND queue_name::text = queue AND task_name::text = level.name AND task.priority = level.priority
                      AND GREATEST(task.enqueued_at, next_retry_at) <= moment
                    ORDER BY GREATEST(task.enqueued_at, next_retry_at), id
                    LIMIT depth) due
            WINDOW of_level AS (PARTITION BY level.name, level.priority)
        )
        SELECT pg_catalog.array_agg(found_at) FILTER (WHERE runs), pg_catalog.array_agg(id) FILTER (WHERE runs),
               pg_catalog.array_agg(priority) FILTER (WHERE runs), pg_catalog.array_agg(enqueued_at) FILTER (WHERE runs),
               COALESCE(pg_catalog.bool_and(seen.complete), true)
          INTO places, ids, priorities, times, complete
          FROM seen;
        EXIT WHEN complete;

        WITH alive AS MATERIALIZED (
            SELECT task.ctid AS found_at, id, task.priority, task.enqueued_at, next_retry_at, good_until, queue_name,
                   task_name, is_workflow_task, workflow_paused_at
              FROM horsies_tasks task
             WHERE status::text = 'PENDING' AND good_until IS NOT NULL AND good_until > moment
             ORDER BY good_until
             LIMIT depth
        ), ready AS (
            SELECT alive.found_at, alive.id, alive.priority, alive.enqueued_at
              FROM alive
             WHERE queue_name::text = queue AND task_name::text = ANY (names)
               AND horsies_may_run(alive.id, alive.enqueued_at, next_retry_at, good_until, is_workflow_task,
                                   workflow_paused_at)
             ORDER BY alive.priority, alive.enqueued_at, alive.id
             LIMIT room
        )
        SELECT pg_catalog.array_agg(found_at), pg_catalog.array_agg(id), pg_catalog.array_agg(priority), pg_catalog.array_agg(enqueued_at),
               (SELECT count(*) FROM alive) < depth
          INTO places, ids, priorities, times, complete
          FROM ready;
        EXIT WHEN complete;
        depth := 16 * depth;
    END LOOP;
    RETURN QUERY SELECT * FROM unnest(places, ids, priorities, times);
END;
$$ LANGUAGE plpgsql;

-- The first `room` tasks of these names that may run now, in the order of the queue. It costs one index probe for each
-- name, 4 to 6 µs, and one more for each priority of a name whose first tasks are not due yet.
CREATE OR REPLACE FUNCTION horsies_ready_by_name(queue text, names text[], room integer) RETURNS tid[] STABLE
    SET jit = off SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    moment constant timestamptz := statement_timestamp();
    deadlines boolean := EXISTS (SELECT FROM horsies_tasks
                                  WHERE CASE WHEN status::text = 'PENDING' THEN good_until IS NOT NULL AND workflow_paused_at IS NULL END
                                    AND queue_name::text = queue);
    found tid[];
BEGIN
    WITH RECURSIVE by_name AS MATERIALIZED (
        SELECT known.name, first.*, pg_catalog.bool_and(first.runs) OVER (PARTITION BY known.name) AS all_run
          FROM pg_catalog.unnest(names) AS known (name)
         CROSS JOIN LATERAL (
               SELECT ctid AS found_at, id, priority, enqueued_at,
                      horsies_may_run(id, enqueued_at, next_retry_at, good_until, is_workflow_task, workflow_paused_at) AS runs
                 FROM horsies_tasks
                WHERE CASE WHEN status::text = 'PENDING' THEN good_until IS NULL AND workflow_paused_at IS NULL END
                  AND queue_name::text = queue AND task_name::text = known.name
                ORDER BY priority, GREATEST(enqueued_at, next_retry_at), id
                LIMIT room) first
    ), level (name, priority) AS (
        SELECT name, pg_catalog.min(priority) FROM by_name WHERE NOT all_run GROUP BY name
         UNION ALL
        SELECT level.name, higher.priority
          FROM level
         CROSS JOIN LATERAL (SELECT task.priority FROM horsies_tasks task
                              WHERE CASE WHEN status::text = 'PENDING' THEN good_until IS NULL AND workflow_paused_at IS NULL END
                                AND queue_name::text = queue AND task_name::text = level.name AND task.priority > level.priority
                              ORDER BY task.priority LIMIT 1) higher
    ), ready AS (
        SELECT found_at, id, priority, enqueued_at FROM by_name WHERE all_run
         UNION ALL
        SELECT due.found_at, due.id, level.priority, due.enqueued_at
          FROM level
         CROSS JOIN LATERAL (
               SELECT task.ctid AS found_at, id, task.enqueued_at
                 FROM horsies_tasks task
                WHERE CASE WHEN status::text = 'PENDING' THEN good_until IS NULL AND workflow_paused_at IS NULL END
                  AND queue_name::text = queue AND task_name::text = level.name AND task.priority = level.priority
                  AND GREATEST(task.enqueued_at, next_retry_at) <= moment
                  AND horsies_may_run(id, task.enqueued_at, next_retry_at, good_until, is_workflow_task,
                                      workflow_paused_at)
                ORDER BY GREATEST(task.enqueued_at, next_retry_at), id
                LIMIT room) due
         UNION ALL
        SELECT * FROM horsies_ready_until(queue, names, room) WHERE deadlines
    )
    SELECT pg_catalog.array_agg(found_at) INTO found
      FROM (SELECT found_at FROM ready ORDER BY priority, enqueued_at, id LIMIT room) first_ones;
    RETURN found;
END;
$$ LANGUAGE plpgsql;

-- The tasks to claim next: the first `most`, at most 256, tasks of these names (NULL: any) in the order of the queue
-- that may run, locked; a row that another session has locked is left out, and none is found in a paused queue.
-- `large`: more than 64 kB of arguments. It reads the first tasks of the queue, a few more than it needs, which is
-- enough unless many of them cannot run now (a worker's claim does the same before it calls this function: a call costs
-- 15 µs of the 300 µs of a claim); only then it searches for each name, and also returns which tasks come `after` those
-- found. A worker takes these with its next claims, while the order is still the same, without a search.
CREATE OR REPLACE FUNCTION horsies_claimable(
    queue text, names text[], most integer, OUT found_at tid[], OUT large boolean[], OUT after tid[]
) AS $$
DECLARE
    width constant integer := LEAST(2 * most + 16, 256);
    room  integer := LEAST(most, 256) + 48;  -- the claims that follow take the rest
    found tid[];
BEGIN
    most := LEAST(most, 256);
    SELECT pg_catalog.array_agg(one.found_at), pg_catalog.array_agg(one.large)
      INTO found_at, large
      FROM (SELECT task.ctid AS found_at,
                   COALESCE(pg_catalog.octet_length(task.args), 0) + COALESCE(pg_catalog.octet_length(task.kwargs), 0) > 65536 AS large
              FROM (SELECT *
                      FROM (SELECT ctid AS place, priority, enqueued_at, id
                              FROM horsies_tasks
                             WHERE status::text = 'PENDING' AND queue_name::text = queue
                               AND NOT EXISTS (SELECT FROM horsies_queue_state
                                                WHERE queue_name::text = queue AND paused_at IS NOT NULL)
                             ORDER BY priority, enqueued_at, id
                             -- A literal: for a variable alone the generic plan sorts all waiting tasks.
                             LIMIT 256) ordered
                     ORDER BY priority, enqueued_at, id
                     LIMIT width) first
              -- Found again by its ctid: by its id it would take 2 µs more for each.
              JOIN horsies_tasks task ON task.ctid = first.place
             WHERE task.status::text = 'PENDING' AND (names IS NULL OR task.task_name::text = ANY (names))
               AND horsies_may_run(task.id, task.enqueued_at, task.next_retry_at, task.good_until,
                                   task.is_workflow_task, task.workflow_paused_at)
             ORDER BY first.priority, first.enqueued_at, first.id
             LIMIT most FOR NO KEY UPDATE OF task SKIP LOCKED) one;
    IF pg_catalog.cardinality(found_at) >= most THEN
        RETURN;
    END IF;
    IF NOT EXISTS (SELECT FROM (SELECT FROM horsies_tasks WHERE status::text = 'PENDING' AND queue_name::text = queue
                                 ORDER BY priority, enqueued_at, id LIMIT 256) head OFFSET width - 1)
    THEN
        RETURN;  -- that was the whole queue
    END IF;
    IF names IS NULL THEN
        names := ARRAY(SELECT DISTINCT task_name FROM horsies_tasks WHERE status::text = 'PENDING' AND queue_name::text = queue);
    END IF;
    LOOP
        found := horsies_ready_by_name(queue, names, room);
        SELECT pg_catalog.array_agg(one.found_at), pg_catalog.array_agg(one.large), found[pg_catalog.max(one.number) + 1:]
          INTO found_at, large, after
          FROM (SELECT task.ctid AS found_at, first.number,
                       COALESCE(pg_catalog.octet_length(task.args), 0) + COALESCE(pg_catalog.octet_length(task.kwargs), 0) > 65536 AS large
                  FROM pg_catalog.unnest(found) WITH ORDINALITY AS first (place, number)
                  JOIN horsies_tasks task ON task.ctid = first.place
                 WHERE NOT EXISTS (SELECT FROM horsies_queue_state WHERE queue_name::text = queue AND paused_at IS NOT NULL)
                       -- In a CASE: with these conditions visible to the planner, a plan may read the whole queue for
                       -- them. Queue and name, because another row may have come to this place.
                   AND CASE WHEN task.status::text = 'PENDING' AND task.queue_name::text = queue AND task.task_name::text = ANY (names)
                            THEN horsies_may_run(task.id, task.enqueued_at, task.next_retry_at, task.good_until,
                                                 task.is_workflow_task, task.workflow_paused_at) END
                 ORDER BY first.number
                 LIMIT most FOR NO KEY UPDATE OF task SKIP LOCKED) one;
        EXIT WHEN pg_catalog.cardinality(found_at) >= most OR COALESCE(pg_catalog.cardinality(found), 0) < room;
        room := 8 * room + most + 16;  -- other workers are claiming these at this moment
    END LOOP;
END;
$$ LANGUAGE plpgsql;
