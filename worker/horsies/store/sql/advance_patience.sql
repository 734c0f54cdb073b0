-- advancing.lock_families; until the end of the caller's transaction ($1 how long to wait for a lock, as PostgreSQL writes it)
SELECT set_config('lock_timeout', $1, true)
