-- views/workflow_search.py; reads only: how far a search along an index may go
-- The last of so many rows of the source, none where there are fewer.
SELECT edge.*
  FROM (VALUES ($1::text, $2::boolean, $3::bigint, $4::timestamptz, $5::text, $6::timestamptz, $7::text, $8::interval,
                $9::timestamptz, $10::interval, $11::timestamptz)) AS wanted (
        source, ascending, most, low_time, low_id, high_time, high_id, since_ago, since_at, until_ago, until_at)
 CROSS JOIN LATERAL (
        SELECT created_at, id FROM horsies_workflows
         WHERE (wanted.source <> 'live' OR status IN ('PENDING', 'RUNNING', 'PAUSED'))
           AND (wanted.source <> 'unsuccessful' OR status IN ('FAILED', 'CANCELLED'))
           AND (wanted.low_time IS NULL OR (created_at, id) >= (wanted.low_time, wanted.low_id))
           AND (wanted.high_time IS NULL OR (created_at, id) <= (wanted.high_time, wanted.high_id))
           AND (wanted.since_ago IS NULL OR created_at >= statement_timestamp() - wanted.since_ago)
           AND (wanted.since_at IS NULL OR created_at >= wanted.since_at)
           AND (wanted.until_ago IS NULL OR created_at <= statement_timestamp() - wanted.until_ago)
           AND (wanted.until_at IS NULL OR created_at <= wanted.until_at)
         ORDER BY CASE WHEN wanted.ascending THEN created_at END, CASE WHEN wanted.ascending THEN id END,
                  CASE WHEN NOT wanted.ascending THEN created_at END DESC,
                  CASE WHEN NOT wanted.ascending THEN id END DESC
        OFFSET wanted.most - 1 LIMIT 1) edge
