-- name: notify
-- listener.py, to itself; guards nothing, changes nothing
SELECT pg_notify($1, $2)
