-- name: view_task_edge
-- views/search.py; reads only: how far a search along an index may go
-- The last of this many rows of the source, none if there are fewer. Of several queues or statuses each is read until
-- they are this many rows together.
SELECT edge.*
  FROM (VALUES ($1::text, $2::boolean, $3::bigint, $4::timestamptz, $5::text, $6::integer, $7::timestamptz, $8::text,
                $9::integer, $10::text[], $11::text[], $12::interval, $13::timestamptz, $14::interval,
                $15::timestamptz)) AS wanted (
        source, ascending, most, low_time, low_id, low_priority, high_time, high_id, high_priority, statuses, queues,
        since_ago, since_at, until_ago, until_at)
 CROSS JOIN LATERAL (
        (SELECT created_at AS at, id, 0 AS priority
           FROM horsies_tasks
          WHERE wanted.source IN ('created', 'unsuccessful')
            AND (wanted.source = 'created' OR status IN ('FAILED', 'CANCELLED', 'EXPIRED'))
            AND (wanted.low_time IS NULL OR (created_at, id) >= (wanted.low_time, wanted.low_id))
            AND (wanted.high_time IS NULL OR (created_at, id) <= (wanted.high_time, wanted.high_id))
            AND (wanted.since_ago IS NULL OR created_at >= statement_timestamp() - wanted.since_ago)
            AND (wanted.since_at IS NULL OR created_at >= wanted.since_at)
            AND (wanted.until_ago IS NULL OR created_at <= statement_timestamp() - wanted.until_ago)
            AND (wanted.until_at IS NULL OR created_at <= wanted.until_at)
          ORDER BY CASE WHEN wanted.ascending THEN created_at END, CASE WHEN wanted.ascending THEN id END,
                   CASE WHEN NOT wanted.ascending THEN created_at END DESC,
                   CASE WHEN NOT wanted.ascending THEN id END DESC
         OFFSET wanted.most - 1 LIMIT 1)
        UNION ALL
        (SELECT COALESCE(completed_at, failed_at), id, 0
           FROM horsies_tasks
          WHERE wanted.source = 'finished' AND status IN ('COMPLETED', 'FAILED', 'CANCELLED', 'EXPIRED')
            AND COALESCE(completed_at, failed_at) <= 'infinity'
            AND (wanted.low_time IS NULL
                 OR (COALESCE(completed_at, failed_at), id) >= (wanted.low_time, wanted.low_id))
            AND (wanted.high_time IS NULL
                 OR (COALESCE(completed_at, failed_at), id) <= (wanted.high_time, wanted.high_id))
          ORDER BY CASE WHEN wanted.ascending THEN COALESCE(completed_at, failed_at) END,
                   CASE WHEN wanted.ascending THEN id END,
                   CASE WHEN NOT wanted.ascending THEN COALESCE(completed_at, failed_at) END DESC,
                   CASE WHEN NOT wanted.ascending THEN id END DESC
         OFFSET wanted.most - 1 LIMIT 1)
        UNION ALL
        (SELECT ended.at, ended.id, 0
           FROM unnest(wanted.statuses) AS one (status)
          CROSS JOIN LATERAL (
                SELECT COALESCE(completed_at, failed_at) AS at, id
                  FROM horsies_tasks task
                 WHERE task.status = one.status AND task.status IN ('FAILED', 'CANCELLED', 'EXPIRED')
                   AND COALESCE(completed_at, failed_at) <= 'infinity'
                   AND (wanted.low_time IS NULL
                        OR (COALESCE(completed_at, failed_at), id) >= (wanted.low_time, wanted.low_id))
                   AND (wanted.high_time IS NULL
                        OR (COALESCE(completed_at, failed_at), id) <= (wanted.high_time, wanted.high_id))
                 ORDER BY CASE WHEN wanted.ascending THEN COALESCE(completed_at, failed_at) END,
                          CASE WHEN wanted.ascending THEN id END,
                          CASE WHEN NOT wanted.ascending THEN COALESCE(completed_at, failed_at) END DESC,
                          CASE WHEN NOT wanted.ascending THEN id END DESC
                OFFSET wanted.most / cardinality(wanted.statuses) + 1 LIMIT 1
              ) ended
          WHERE wanted.source = 'finished unsuccessful'
          ORDER BY CASE WHEN wanted.ascending THEN ended.at END, CASE WHEN wanted.ascending THEN ended.id END,
                   CASE WHEN NOT wanted.ascending THEN ended.at END DESC,
                   CASE WHEN NOT wanted.ascending THEN ended.id END DESC
          LIMIT 1)
        UNION ALL
        (WITH RECURSIVE queue (name) AS (
             (SELECT queue_name FROM horsies_tasks WHERE status = 'PENDING' ORDER BY queue_name LIMIT 1)
             UNION ALL
             SELECT (SELECT queue_name FROM horsies_tasks
                      WHERE status = 'PENDING' AND queue_name > queue.name ORDER BY queue_name LIMIT 1)
               FROM queue WHERE queue.name IS NOT NULL
         )
         SELECT pending.enqueued_at, pending.id, pending.priority
           FROM queue
          CROSS JOIN LATERAL (
                SELECT priority, enqueued_at, id
                  FROM horsies_tasks
                 WHERE status = 'PENDING' AND queue_name = queue.name
                   AND (wanted.low_time IS NULL
                        OR (priority, enqueued_at, id) >= (wanted.low_priority, wanted.low_time, wanted.low_id))
                   AND (wanted.high_time IS NULL
                        OR (priority, enqueued_at, id) <= (wanted.high_priority, wanted.high_time, wanted.high_id))
                 ORDER BY CASE WHEN wanted.ascending THEN priority END, CASE WHEN wanted.ascending THEN enqueued_at END,
                          CASE WHEN wanted.ascending THEN id END, CASE WHEN NOT wanted.ascending THEN priority END DESC,
                          CASE WHEN NOT wanted.ascending THEN enqueued_at END DESC,
                          CASE WHEN NOT wanted.ascending THEN id END DESC
                OFFSET wanted.most / (SELECT count(*) FROM queue) + 1 LIMIT 1
              ) pending
          WHERE wanted.source = 'waiting' AND (wanted.queues IS NULL OR queue.name = ANY (wanted.queues))
          ORDER BY CASE WHEN wanted.ascending THEN pending.priority END,
                   CASE WHEN wanted.ascending THEN pending.enqueued_at END,
                   CASE WHEN wanted.ascending THEN pending.id END,
                   CASE WHEN NOT wanted.ascending THEN pending.priority END DESC,
                   CASE WHEN NOT wanted.ascending THEN pending.enqueued_at END DESC,
                   CASE WHEN NOT wanted.ascending THEN pending.id END DESC
          LIMIT 1)
      ) edge

-- name: view_few_wait
-- views/search.py; reads only: whether at most $1 tasks are PENDING
SELECT count(*) <= $1 FROM (SELECT FROM horsies_tasks WHERE status = 'PENDING' LIMIT $1::bigint + 1) AS pending

-- name: view_candidates
-- views/search.py, which puts it as `task` before the statements on tasks; reads only: the rows of a source that match
-- a filter
-- An unused parameter is NULL. All are constants to a custom plan: unused conditions, sources and directions are
-- removed, partial indexes are found to fit, and a statement that selects from here in the order of a source that is
-- read along an index ends the scan with a LIMIT, without a sort.
SELECT row.*
  FROM (VALUES (
        $1::text, $2::boolean, $3::bigint, $4::text,
        $5::timestamptz, $6::text, $7::integer, $8::timestamptz, $9::text, $10::integer,
        $11::text[], $12::text[], $13::boolean,
        $14::text[], $15::text[], $16::text[], $17::text[],
        $18::text[], $19::text[], $20::text[], $21::text[],
        $22::text[], $23::text[], $24::text[], $25::text[],
        $26::text[], $27::text[], $28::text[], $29::text[],
        $30::text[], $31::text[], $32::text[], $33::text[],
        $34::text[], $35::text[], $36::text[], $37::text[],
        $38::text[], $39::text[], $40::text[], $41::text[],
        $42::boolean, $43::text[], $44::text[], $45::text[], $46::text[], $47::text[], $48::text[],
        $49::boolean, $50::boolean, $51::boolean, $52::boolean,
        $53::interval, $54::timestamptz, $55::interval, $56::timestamptz,
        $57::integer, $58::integer, $59::interval, $60::interval, $61::interval, $62::interval,
        $63::boolean, $64::interval, $65::interval,
        $66::timestamptz, $67::timestamptz
       )) AS wanted (
        -- at most this many rows of the source, between low and high, both included, but not that one task
        source, ascending, most, not_id,
        low_time, low_id, low_priority, high_time, high_id, high_priority,
        -- from here on horsies.query.TaskParameters, in its order
        statuses, waiting, interrupted,
        ids, ids_like, not_ids, not_ids_like,
        queues, queues_like, not_queues, not_queues_like,
        names, names_like, not_names, not_names_like,
        errors, errors_like, not_errors, not_errors_like,
        workers, workers_like, not_workers, not_workers_like,
        uniques, uniques_like, not_uniques, not_uniques_like,
        workflows, workflows_like, not_workflows, not_workflows_like,
        in_workflow, name_words, id_words, not_name_words, not_id_words, args_like, not_args_like,
        has_error, has_deadline, has_unique, has_rerun,
        since_ago, since_at, until_ago, until_at,
        tries_min, tries_max, wait_min, wait_max, run_min, run_max,
        has_due, ended_min, ended_max,
        ended_from, ended_until
       )
       -- Upstream's tables lack these columns: a name without an alias that the table does not have is resolved here.
 CROSS JOIN (VALUES (false, NULL::timestamptz, NULL::text, NULL::text))
            AS absent (is_workflow_task, finalizing_at, unique_key, rerun_of)
 CROSS JOIN LATERAL (
    SELECT task.at, task.id, task_name, queue_name, task.priority, status,
           CASE WHEN status = 'PENDING' AND next_retry_at > statement_timestamp() THEN 'RETRY'
                WHEN status = 'FAILED' AND error_code = 'TASK_INTERRUPTED' THEN 'INTERRUPTED' ELSE status END AS state,
           created_at, sent_at, enqueued_at, next_retry_at, good_until, claimed_at, claim_expires_at,
           CASE WHEN status NOT IN ('PENDING', 'CLAIMED') THEN started_at END AS started_at,
           finalizing_at,
           CASE WHEN status NOT IN ('PENDING', 'CLAIMED', 'RUNNING') THEN COALESCE(completed_at, failed_at) END
               AS finished_at,
           retry_count, max_retries, claimed_by_worker_id, worker_hostname, worker_pid, worker_process_name, error_code,
           is_workflow_task, unique_key, rerun_of
      FROM (
        -- in the order of their creation
        (SELECT created_at AS at, task.*
           FROM horsies_tasks task
          WHERE wanted.source IN ('created', 'unsuccessful')
            AND (wanted.source = 'created' OR status IN ('FAILED', 'CANCELLED', 'EXPIRED'))
            AND (wanted.low_time IS NULL OR (created_at, id) >= (wanted.low_time, wanted.low_id))
            AND (wanted.high_time IS NULL OR (created_at, id) <= (wanted.high_time, wanted.high_id))
            AND (wanted.since_ago IS NULL OR created_at >= statement_timestamp() - wanted.since_ago)
            AND (wanted.since_at IS NULL OR created_at >= wanted.since_at)
            AND (wanted.until_ago IS NULL OR created_at <= statement_timestamp() - wanted.until_ago)
            AND (wanted.until_at IS NULL OR created_at <= wanted.until_at)
          ORDER BY CASE WHEN wanted.ascending THEN created_at END, CASE WHEN wanted.ascending THEN id END,
                   CASE WHEN NOT wanted.ascending THEN created_at END DESC,
                   CASE WHEN NOT wanted.ascending THEN id END DESC
          LIMIT wanted.most)
        UNION ALL
        -- In the order of their ends; a row cancelled by upstream has no such time. The index does not contain the id:
        -- rows of one moment are read together and sorted.
        (SELECT COALESCE(completed_at, failed_at), task.*
           FROM horsies_tasks task
          WHERE wanted.source = 'finished' AND status IN ('COMPLETED', 'FAILED', 'CANCELLED', 'EXPIRED')
            AND COALESCE(completed_at, failed_at) <= 'infinity'
            AND (wanted.low_time IS NULL
                 OR (COALESCE(completed_at, failed_at), id) >= (wanted.low_time, wanted.low_id))
            AND (wanted.high_time IS NULL
                 OR (COALESCE(completed_at, failed_at), id) <= (wanted.high_time, wanted.high_id))
          ORDER BY CASE WHEN wanted.ascending THEN COALESCE(completed_at, failed_at) END,
                   CASE WHEN wanted.ascending THEN id END,
                   CASE WHEN NOT wanted.ascending THEN COALESCE(completed_at, failed_at) END DESC,
                   CASE WHEN NOT wanted.ascending THEN id END DESC
          LIMIT wanted.most)
        UNION ALL
        (SELECT ended.*
           FROM unnest(wanted.statuses) AS one (status)
          CROSS JOIN LATERAL (
                SELECT COALESCE(completed_at, failed_at), task.*
                  FROM horsies_tasks task
                 WHERE task.status = one.status AND task.status IN ('FAILED', 'CANCELLED', 'EXPIRED')
                   AND COALESCE(completed_at, failed_at) <= 'infinity'
                   AND (wanted.low_time IS NULL
                        OR (COALESCE(completed_at, failed_at), id) >= (wanted.low_time, wanted.low_id))
                   AND (wanted.high_time IS NULL
                        OR (COALESCE(completed_at, failed_at), id) <= (wanted.high_time, wanted.high_id))
                 ORDER BY CASE WHEN wanted.ascending THEN COALESCE(completed_at, failed_at) END,
                          CASE WHEN wanted.ascending THEN id END,
                          CASE WHEN NOT wanted.ascending THEN COALESCE(completed_at, failed_at) END DESC,
                          CASE WHEN NOT wanted.ascending THEN id END DESC
                 LIMIT wanted.most
              ) ended
          WHERE wanted.source = 'finished unsuccessful')
        UNION ALL
        -- in the order in which they are claimed, the first ones of each queue
        (SELECT pending.*
           FROM (WITH RECURSIVE queue (name) AS (
                     (SELECT queue_name FROM horsies_tasks WHERE status = 'PENDING' ORDER BY queue_name LIMIT 1)
                     UNION ALL
                     SELECT (SELECT queue_name FROM horsies_tasks
                              WHERE status = 'PENDING' AND queue_name > queue.name ORDER BY queue_name LIMIT 1)
                       FROM queue WHERE queue.name IS NOT NULL
                 ) SELECT name FROM queue) queue
          CROSS JOIN LATERAL (
                SELECT enqueued_at, task.*
                  FROM horsies_tasks task
                 WHERE status = 'PENDING' AND queue_name = queue.name
                   AND (wanted.low_time IS NULL
                        OR (priority, enqueued_at, id) >= (wanted.low_priority, wanted.low_time, wanted.low_id))
                   AND (wanted.high_time IS NULL
                        OR (priority, enqueued_at, id) <= (wanted.high_priority, wanted.high_time, wanted.high_id))
                 ORDER BY CASE WHEN wanted.ascending THEN priority END, CASE WHEN wanted.ascending THEN enqueued_at END,
                          CASE WHEN wanted.ascending THEN id END, CASE WHEN NOT wanted.ascending THEN priority END DESC,
                          CASE WHEN NOT wanted.ascending THEN enqueued_at END DESC,
                          CASE WHEN NOT wanted.ascending THEN id END DESC
                 LIMIT wanted.most
              ) pending
          WHERE wanted.source = 'waiting' AND (wanted.queues IS NULL OR queue.name = ANY (wanted.queues)))
        UNION ALL
        -- All of these, in no order: there are as few claimed and running tasks as slots for them.
        (SELECT COALESCE(started_at, claimed_at, created_at), task.* FROM horsies_tasks task
          WHERE wanted.source = 'running' AND status = 'RUNNING')
        UNION ALL
        (SELECT created_at, task.* FROM horsies_tasks task
          WHERE wanted.source = 'live' AND status IN ('CLAIMED', 'RUNNING'))
        UNION ALL
        (SELECT created_at, task.* FROM horsies_tasks task
          WHERE wanted.source = 'live' AND status = 'PENDING' AND 'PENDING' = ANY (wanted.statuses)
          -- in the order of ix_horsies_tasks_ready, which is then read no further
          ORDER BY queue_name, priority, enqueued_at, id
          LIMIT wanted.most)
        UNION ALL
        (SELECT created_at, task.* FROM horsies_tasks task
          WHERE wanted.source = 'ids' AND id = ANY (wanted.ids))
        UNION ALL
        (SELECT created_at, task.* FROM horsies_tasks task
          WHERE wanted.source = 'workflow'
            AND id = ANY (ARRAY(SELECT task_id FROM horsies_workflow_tasks
                                 WHERE workflow_id = ANY (wanted.workflows) AND task_id IS NOT NULL
                                 LIMIT wanted.most)))
      ) task
     WHERE (wanted.not_id IS NULL OR task.id <> wanted.not_id)
       AND (wanted.low_time IS NULL OR wanted.source = 'waiting'
            OR (at, task.id) >= (wanted.low_time, wanted.low_id))
       AND (wanted.high_time IS NULL OR wanted.source = 'waiting'
            OR (at, task.id) <= (wanted.high_time, wanted.high_id))
       AND (wanted.statuses IS NULL OR status = ANY (wanted.statuses))
       AND (wanted.waiting IS NULL OR status <> 'PENDING'
            OR CASE WHEN next_retry_at > statement_timestamp() THEN 'RETRY'
                    WHEN enqueued_at > statement_timestamp() THEN 'SCHEDULED' ELSE 'PENDING' END
               = ANY (wanted.waiting))
       AND (wanted.interrupted IS NULL OR status <> 'FAILED'
            OR COALESCE(error_code = 'TASK_INTERRUPTED', false) = wanted.interrupted)
       AND (wanted.since_ago IS NULL OR created_at >= statement_timestamp() - wanted.since_ago)
       AND (wanted.since_at IS NULL OR created_at >= wanted.since_at)
       AND (wanted.until_ago IS NULL OR created_at <= statement_timestamp() - wanted.until_ago)
       AND (wanted.until_at IS NULL OR created_at <= wanted.until_at)
       AND (wanted.ids IS NULL OR task.id = ANY (wanted.ids))
       AND (wanted.ids_like IS NULL OR task.id LIKE ANY (wanted.ids_like))
       AND (wanted.not_ids IS NULL OR task.id <> ALL (wanted.not_ids))
       AND (wanted.not_ids_like IS NULL OR NOT task.id LIKE ANY (wanted.not_ids_like))
       AND (wanted.queues IS NULL OR queue_name = ANY (wanted.queues))
       AND (wanted.queues_like IS NULL OR queue_name LIKE ANY (wanted.queues_like))
       AND (wanted.not_queues IS NULL OR queue_name <> ALL (wanted.not_queues))
       AND (wanted.not_queues_like IS NULL OR NOT queue_name LIKE ANY (wanted.not_queues_like))
       AND (wanted.names IS NULL OR task_name = ANY (wanted.names))
       AND (wanted.names_like IS NULL OR task_name LIKE ANY (wanted.names_like))
       AND (wanted.not_names IS NULL OR task_name <> ALL (wanted.not_names))
       AND (wanted.not_names_like IS NULL OR NOT task_name LIKE ANY (wanted.not_names_like))
       -- Rows without a value match no `is`, and every `is not`.
       AND (wanted.errors IS NULL OR error_code = ANY (wanted.errors))
       AND (wanted.errors_like IS NULL OR error_code LIKE ANY (wanted.errors_like))
       AND (wanted.not_errors IS NULL OR (error_code = ANY (wanted.not_errors)) IS NOT TRUE)
       AND (wanted.not_errors_like IS NULL OR (error_code LIKE ANY (wanted.not_errors_like)) IS NOT TRUE)
       AND (wanted.workers IS NULL OR claimed_by_worker_id = ANY (wanted.workers))
       AND (wanted.workers_like IS NULL OR claimed_by_worker_id LIKE ANY (wanted.workers_like))
       AND (wanted.not_workers IS NULL OR (claimed_by_worker_id = ANY (wanted.not_workers)) IS NOT TRUE)
       AND (wanted.not_workers_like IS NULL OR (claimed_by_worker_id LIKE ANY (wanted.not_workers_like)) IS NOT TRUE)
       AND (wanted.uniques IS NULL OR unique_key = ANY (wanted.uniques))
       AND (wanted.uniques_like IS NULL OR unique_key LIKE ANY (wanted.uniques_like))
       AND (wanted.not_uniques IS NULL OR (unique_key = ANY (wanted.not_uniques)) IS NOT TRUE)
       AND (wanted.not_uniques_like IS NULL OR (unique_key LIKE ANY (wanted.not_uniques_like)) IS NOT TRUE)
       AND (wanted.in_workflow IS NULL OR is_workflow_task = wanted.in_workflow)
       AND (COALESCE(wanted.workflows, wanted.workflows_like) IS NULL
            OR EXISTS (SELECT FROM horsies_workflow_tasks node
                        WHERE node.task_id = task.id
                          AND (node.workflow_id = ANY (wanted.workflows)
                               OR node.workflow_id LIKE ANY (wanted.workflows_like))))
       AND (COALESCE(wanted.not_workflows, wanted.not_workflows_like) IS NULL
            OR NOT EXISTS (SELECT FROM horsies_workflow_tasks node
                            WHERE node.task_id = task.id
                              AND (node.workflow_id = ANY (wanted.not_workflows)
                                   OR node.workflow_id LIKE ANY (wanted.not_workflows_like))))
       AND (wanted.name_words IS NULL OR task_name LIKE ANY (wanted.name_words)
            OR wanted.id_words IS NOT NULL AND task.id LIKE ANY (wanted.id_words))
       AND (wanted.not_name_words IS NULL
            OR NOT (task_name LIKE ANY (wanted.not_name_words)
                    OR wanted.not_id_words IS NOT NULL AND task.id LIKE ANY (wanted.not_id_words)))
       AND (wanted.has_error IS NULL OR (error_code IS NOT NULL) = wanted.has_error)
       AND (wanted.has_deadline IS NULL OR (good_until IS NOT NULL) = wanted.has_deadline)
       AND (wanted.has_unique IS NULL OR (unique_key IS NOT NULL) = wanted.has_unique)
       AND (wanted.has_rerun IS NULL OR (rerun_of IS NOT NULL) = wanted.has_rerun)
       AND (wanted.tries_min IS NULL OR retry_count + 1 >= wanted.tries_min)
       AND (wanted.tries_max IS NULL OR retry_count + 1 <= wanted.tries_max)
       AND (COALESCE(wanted.wait_min, wanted.wait_max) IS NULL
            OR CASE WHEN status NOT IN ('PENDING', 'CLAIMED') THEN started_at
                    WHEN enqueued_at <= statement_timestamp() THEN statement_timestamp() END - enqueued_at
               BETWEEN COALESCE(wanted.wait_min, interval '0') AND COALESCE(wanted.wait_max, interval '1000 years'))
       AND (COALESCE(wanted.run_min, wanted.run_max) IS NULL
            OR CASE WHEN status = 'RUNNING' THEN statement_timestamp()
                    WHEN status NOT IN ('PENDING', 'CLAIMED') THEN COALESCE(completed_at, failed_at) END - started_at
               BETWEEN COALESCE(wanted.run_min, interval '0') AND COALESCE(wanted.run_max, interval '1000 years'))
       AND (wanted.has_due IS NULL OR (enqueued_at <= statement_timestamp()) = wanted.has_due)
       AND (COALESCE(wanted.ended_min, wanted.ended_max) IS NULL
            OR status NOT IN ('PENDING', 'CLAIMED', 'RUNNING')
               AND statement_timestamp() - COALESCE(completed_at, failed_at)
                   BETWEEN COALESCE(wanted.ended_min, interval '0') AND COALESCE(wanted.ended_max, interval '1000 years'))
       AND (COALESCE(wanted.ended_from, wanted.ended_until) IS NULL
            OR status NOT IN ('PENDING', 'CLAIMED', 'RUNNING')
               AND COALESCE(completed_at, failed_at) BETWEEN COALESCE(wanted.ended_from, '-infinity')
                                                         AND COALESCE(wanted.ended_until, 'infinity'))
       -- Last, because these columns may be large and stored out of line.
       AND (wanted.args_like IS NULL OR args LIKE ANY (wanted.args_like) OR kwargs LIKE ANY (wanted.args_like))
       AND (wanted.not_args_like IS NULL
            OR (args LIKE ANY (wanted.not_args_like) OR kwargs LIKE ANY (wanted.not_args_like)) IS NOT TRUE)
  ) row
