-- name: enqueue_alike
-- enqueue.py, many sends that differ only in their arguments; as it is, or with a clause that leaves out conflicting
-- rows, as in enqueue_many
-- Nine columns are sent once instead of once a row: 11.7 -> 8.9 µs a row.
INSERT INTO /* new_task */
SELECT id, $6::text, enqueue_sha, sent_at, $7::text, $8::int, args, kwargs, $9::text, $10::timestamptz, $11::text,
       COALESCE($12::timestamptz, statement_timestamp() + COALESCE($13::float8, 0) * interval '1 second'),
       $14::int, false, NULL
  FROM unnest($1::text[], $2::text[], $3::timestamptz[], $4::text[], $5::text[])
       AS request (id, enqueue_sha, sent_at, args, kwargs)

-- name: enqueue_one
-- enqueue.py, one send; a repeated id or a unique key in use changes nothing and returns nothing
INSERT INTO /* new_task */
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11,
        -- not now(): in the caller's transaction that may be long ago, and the delay counts from the send
        COALESCE($12::timestamptz, statement_timestamp() + COALESCE($13::float8, 0) * interval '1 second'),
        $14, false, NULL)
ON CONFLICT DO NOTHING
RETURNING id

-- name: enqueue_many
-- enqueue.py, many sends; rows with a repeated id or a unique key in use are left out and not returned
INSERT INTO /* new_task */
SELECT id, task_name, enqueue_sha, sent_at, queue_name, priority, args, kwargs, task_options, good_until, unique_key,
       COALESCE(enqueued_at, statement_timestamp() + COALESCE(delay_seconds, 0) * interval '1 second'),
       max_retries, false, NULL
  FROM unnest($1::text[], $2::text[], $3::text[], $4::timestamptz[], $5::text[], $6::int[], $7::text[], $8::text[],
              $9::text[], $10::timestamptz[], $11::text[], $12::timestamptz[], $13::float8[], $14::int[])
       AS request (id, task_name, enqueue_sha, sent_at, queue_name, priority, args, kwargs, task_options,
                   good_until, unique_key, enqueued_at, delay_seconds, max_retries)
ON CONFLICT DO NOTHING
RETURNING id

-- name: enqueue_conflicts
-- enqueue.py, after an insert that left rows out: for each request the row with its id, or the live task with its name
-- and unique key; the task is only counted for, never locked ($1 ids, $2 names, $3 unique keys, $4 whether the
-- transaction is the caller's). Here and in what else runs on a caller's connection, which may have all rights, texts are
-- compared as text: see search_path.sql of the schema.
WITH holder AS MATERIALIZED (
    SELECT asked.number, own.enqueue_sha, live.id, live.args, live.kwargs
      FROM unnest($1::text[], $2::text[], $3::text[]) WITH ORDINALITY AS asked (id, task_name, unique_key, number)
      LEFT JOIN LATERAL (SELECT enqueue_sha FROM horsies_tasks WHERE id::text = asked.id LIMIT 1) own ON true
      LEFT JOIN LATERAL (SELECT id, args, kwargs FROM horsies_tasks
                          WHERE unique_key::text = asked.unique_key AND task_name::text = asked.task_name
                            AND status::text IN /* open_tasks */
                          LIMIT 1) live ON own.enqueue_sha IS NULL
), counted AS (
    INSERT INTO horsies_duplicate_sends AS stored (task_id, backend, sends, last_at)
    SELECT id, pg_backend_pid(), count(*), statement_timestamp()
      FROM holder
     WHERE id IS NOT NULL
           -- The count alone need not wait for the disk, but the caller's transaction may have to.
       AND (SELECT $4::boolean OR set_config('synchronous_commit', 'off', true) = 'off')
     GROUP BY id
     ORDER BY id
        ON CONFLICT (task_id, backend) DO UPDATE SET sends = stored.sends + EXCLUDED.sends, last_at = EXCLUDED.last_at
)
SELECT enqueue_sha, id, args, kwargs FROM holder ORDER BY number
