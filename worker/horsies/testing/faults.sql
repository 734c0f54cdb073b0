-- name: fault_waiting
-- testing/faults.py, the backends that are blocked at a fault; reads only ($1, $2 the keys of its lock)
SELECT activity.pid, activity.application_name, activity.query
  FROM pg_locks held
  JOIN pg_stat_activity activity ON activity.pid = held.pid
 WHERE held.locktype = 'advisory' AND held.objsubid = 2 AND NOT held.granted
   AND held.database = (SELECT oid FROM pg_database WHERE datname = current_database())
   AND held.classid = $1::integer::oid AND held.objid = $2::integer::oid
 ORDER BY activity.query_start

-- name: fault_strike
-- testing/faults.py, in a schema of the fault's own; the trigger's arguments: the counting sequence, first and last
-- number to strike, action, the two keys of the lock, SQLSTATE
-- A blocked statement waits without end, whatever the lock timeout of its session.
CREATE FUNCTION strike() RETURNS trigger LANGUAGE plpgsql SET lock_timeout = 0 AS $$
DECLARE
    -- A sequence, because it keeps its count when the transaction is rolled back.
    hit bigint := nextval(TG_ARGV[0]::regclass);
BEGIN
    IF hit BETWEEN TG_ARGV[1]::bigint AND TG_ARGV[2]::bigint THEN
        CASE TG_ARGV[3]
            WHEN 'block' THEN
                PERFORM pg_advisory_xact_lock_shared(TG_ARGV[4]::integer, TG_ARGV[5]::integer);
            WHEN 'kill' THEN
                PERFORM pg_terminate_backend(pg_backend_pid());
                PERFORM pg_sleep(10);
            WHEN 'fail' THEN
                RAISE EXCEPTION 'a fault of the test' USING ERRCODE = TG_ARGV[6];
        END CASE;
    END IF;
    IF TG_OP = 'DELETE' THEN
        RETURN OLD;
    END IF;
    RETURN NEW;
END
$$
