-- enqueue.py, many sends; a repeated id or a unique key that is taken is left out and not returned
INSERT INTO horsies_tasks (id, task_name, enqueue_sha, sent_at, queue_name, priority, args, kwargs, task_options,
                           good_until, unique_key, enqueued_at, max_retries)
SELECT id, task_name, enqueue_sha, sent_at, queue_name, priority, args, kwargs, task_options,
       good_until, unique_key,
       COALESCE(enqueued_at, statement_timestamp() + COALESCE(delay_seconds, 0) * interval '1 second'),
       max_retries
  FROM unnest($1::text[], $2::text[], $3::text[], $4::timestamptz[], $5::text[], $6::int[], $7::text[], $8::text[],
              $9::text[], $10::timestamptz[], $11::text[], $12::timestamptz[], $13::float8[], $14::int[])
       AS request (id, task_name, enqueue_sha, sent_at, queue_name, priority, args, kwargs, task_options,
                   good_until, unique_key, enqueued_at, delay_seconds, max_retries)
ON CONFLICT DO NOTHING
RETURNING id
