-- name: doctor_examiner
-- examine.py; reads only. The database's time, the role, and whether it may see what monitoring needs
SELECT now() AS now, current_user::text AS role, pg_has_role(current_user, 'pg_monitor', 'USAGE') AS sees_all
