-- testing/faults.py, whose statement stands at a fault; reads only ($1, $2 the keys of its lock)
SELECT activity.pid, activity.application_name, activity.query
  FROM pg_locks held
  JOIN pg_stat_activity activity ON activity.pid = held.pid
 WHERE held.locktype = 'advisory' AND held.objsubid = 2 AND NOT held.granted
   AND held.database = (SELECT oid FROM pg_database WHERE datname = current_database())
   AND held.classid = $1::integer::oid AND held.objid = $2::integer::oid
 ORDER BY activity.query_start
