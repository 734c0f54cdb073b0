-- views/flow.py; reads only: since when there is something to tell, by one probe of an index each
SELECT COALESCE(
    (SELECT COALESCE(completed_at, failed_at) FROM horsies_tasks
      WHERE status IN ('COMPLETED', 'FAILED', 'CANCELLED', 'EXPIRED')
        AND COALESCE(completed_at, failed_at) >= '-infinity'
      ORDER BY COALESCE(completed_at, failed_at) LIMIT 1),
    (SELECT created_at FROM horsies_tasks ORDER BY created_at, id LIMIT 1)) AS since,
    statement_timestamp() AS now
