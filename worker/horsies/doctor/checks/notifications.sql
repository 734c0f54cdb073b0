-- name: doctor_notify
-- notifications.py, to itself; guards nothing, changes nothing ($1 channel)
SELECT pg_notify($1, '')

-- name: doctor_queue_usage
-- notifications.py; reads only. The share of the queue that some session has not read yet
SELECT pg_notification_queue_usage() AS usage
