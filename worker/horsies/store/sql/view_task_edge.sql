-- views/search.py; reads only: how far a search along an index may go
-- The last of so many rows of the source, none where there are fewer. Of several queues or statuses each is read so far
-- that they are so many rows together.
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
