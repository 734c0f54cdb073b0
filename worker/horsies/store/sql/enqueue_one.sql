-- enqueue.py, one send; a repeated id or a unique key that is taken changes nothing and returns nothing
INSERT INTO horsies_tasks (id, task_name, enqueue_sha, sent_at, queue_name, priority, args, kwargs, task_options,
                           good_until, unique_key, enqueued_at, max_retries)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11,
        -- not now(): in the caller's transaction that may be long ago, and the delay counts from the send
        COALESCE($12::timestamptz, statement_timestamp() + COALESCE($13::float8, 0) * interval '1 second'),
        $14)
ON CONFLICT DO NOTHING
RETURNING id
