-- name: announce_room
-- finisher.py, after outcomes under a cap; guards nothing, wakes claimers that the cap had stopped
-- ($1 queues, $2 a task)
SELECT pg_notify('task_queue_' || queue, 'capacity:' || $2::text) FROM unnest($1::text[]) AS queue
