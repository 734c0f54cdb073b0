-- enqueue.py, many sends that differ only in what they are called with; as it is, or with a clause that leaves out what is
-- taken, as enqueue_many has it
-- Nine columns travel once instead of once a row: 11.7 -> 8.9 µs a row.
INSERT INTO horsies_tasks (id, enqueue_sha, sent_at, args, kwargs, task_name, queue_name, priority, task_options,
                           good_until, unique_key, enqueued_at, max_retries)
SELECT id, enqueue_sha, sent_at, args, kwargs, $6::text, $7::text, $8::int, $9::text, $10::timestamptz, $11::text,
       COALESCE($12::timestamptz, statement_timestamp() + COALESCE($13::float8, 0) * interval '1 second'),
       $14::int
  FROM unnest($1::text[], $2::text[], $3::timestamptz[], $4::text[], $5::text[])
       AS request (id, enqueue_sha, sent_at, args, kwargs)
