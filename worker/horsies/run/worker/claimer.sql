-- name: announce_room
-- finisher.py, after outcomes under a cap; guards nothing, wakes claimers that the cap had stopped
-- ($1 queues, $2 a task)
WITH woken AS (
    SELECT queue_name, 'capacity:' || $2::text AS notice FROM unnest($1::text[]) AS queue_name
)
SELECT /* queues_notified */
