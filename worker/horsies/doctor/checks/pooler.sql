-- name: doctor_backend
-- pooler.py; reads only
SELECT pg_backend_pid()
