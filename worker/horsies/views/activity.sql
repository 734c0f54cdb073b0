-- name: activity_operations
-- views/activity.py; reads only: the newest operations that fit, by the times of their audit rows
-- ($1 operations at most, $2 distinct times that are read at most, $3 not before, $4 before; $5 patterns of who did it
-- and $6 of who did not, $7 and $8 the same for verbs, $9 and $10 kinds, $11 and $12 parts of the reason or the id;
-- an empty array: any)
-- All rows of one batch have the time of its statement. Stepping from time to time, an operation on 100,000 tasks costs
-- 200 probes of ix_horsies_operator_actions_latest, not 100,000 entries. Two operations with the same microsecond are
-- both found, by the first and the last row of that time.
WITH RECURSIVE walk AS (
    SELECT 0 AS step, COALESCE($4::timestamptz, 'infinity') AS acted_at, '{}'::uuid[] AS found
     UNION ALL
    SELECT walk.step + 1, moment.acted_at, walk.found || fresh.ids
      FROM walk
     CROSS JOIN LATERAL (
            SELECT acted_at FROM horsies_operator_actions
             WHERE acted_at < walk.acted_at AND acted_at >= COALESCE($3::timestamptz, '-infinity')
             ORDER BY acted_at DESC, id DESC LIMIT 1) moment
     CROSS JOIN LATERAL (
            SELECT COALESCE(array_agg(DISTINCT ends.operation_id), '{}') AS ids
              FROM ((SELECT * FROM horsies_operator_actions
                      WHERE acted_at = moment.acted_at ORDER BY acted_at DESC, id DESC LIMIT 1)
                     UNION ALL
                    (SELECT * FROM horsies_operator_actions
                      WHERE acted_at = moment.acted_at ORDER BY acted_at, id LIMIT 1)) ends
             WHERE ends.operation_id <> ALL (walk.found)
               AND ($5::text[] = '{}' OR EXISTS (
                    SELECT FROM unnest(ARRAY[os_user, os_host, os_user || '@' || os_host, db_role]) AS who
                     WHERE who LIKE ANY ($5)))
               AND NOT EXISTS (
                    SELECT FROM unnest(ARRAY[os_user, os_host, os_user || '@' || os_host, db_role]) AS who
                     WHERE who LIKE ANY ($6::text[]))
               AND ($7::text[] = '{}' OR verb LIKE ANY ($7)) AND NOT verb LIKE ANY ($8::text[])
               AND ($9::text[] = '{}' OR target_kind = ANY ($9)) AND target_kind <> ALL ($10::text[])
               AND ($11::text[] = '{}' OR concat(reason, ' ', operation_id) LIKE ANY ($11))
               AND NOT concat(reason, ' ', operation_id) LIKE ANY ($12::text[])) fresh
     WHERE cardinality(walk.found) < $1::integer AND walk.step < $2::integer
)
SELECT found, acted_at AS reached, cardinality(found) >= $1 OR step >= $2 AS more
  FROM walk ORDER BY step DESC LIMIT 1

-- name: activity_totals
-- views/activity.py; reads only: what each of these operations did ($1 operations, $2 rows read of each at most)
SELECT asked.id, total.*
  FROM unnest($1::uuid[]) WITH ORDINALITY AS asked (id, place)
 CROSS JOIN LATERAL (
        SELECT min(acted_at) AS began_at, max(acted_at) AS acted_at, array_agg(DISTINCT verb) AS verbs,
               array_agg(DISTINCT target_kind) AS kinds, count(*) FILTER (WHERE outcome = 'applied') AS applied,
               count(*) FILTER (WHERE outcome = 'refused') AS refused, count(*) FILTER (WHERE undone) AS undone,
               count(*) >= $2::integer AS at_least, min(target_id) AS target_id, min(os_user) AS os_user,
               min(os_host) AS os_host, min(db_role) AS db_role, min(reason) AS reason, min(filter) AS filter,
               bool_or(undoes IS NOT NULL) AS is_undo
          FROM (SELECT own.*,
                       EXISTS (SELECT FROM horsies_operator_actions later
                                WHERE later.undoes = own.id AND later.outcome = 'applied') AS undone
                  FROM horsies_operator_actions own
                 WHERE own.operation_id = asked.id LIMIT $2) own) total
 WHERE total.began_at IS NOT NULL
 ORDER BY total.acted_at DESC, asked.place

-- name: activity_newest_action
-- views/activity.py; reads only: whether anything was recorded since
SELECT id FROM horsies_operator_actions ORDER BY acted_at DESC, id DESC LIMIT 1

-- name: activity_task_ends
-- views/activity.py; reads only: tasks that failed, were cancelled or expired, of each the newest by
-- ix_horsies_tasks_unsuccessful, counted by name and error code within ten minutes
-- ($1 tasks of each status at most, $2 not before, $3 before, $4 groups at most)
-- Tasks that an operator ended are in the audit.
WITH ended AS (
    SELECT status, id, task_name, error_code, at
      FROM unnest(ARRAY['FAILED', 'CANCELLED', 'EXPIRED']) AS wanted (state)
     CROSS JOIN LATERAL (
            SELECT status, id, task_name, error_code, COALESCE(completed_at, failed_at) AS at
              FROM horsies_tasks
             WHERE status = wanted.state AND status IN ('FAILED', 'CANCELLED', 'EXPIRED')
               AND COALESCE(completed_at, failed_at) >= $2::timestamptz
               AND COALESCE(completed_at, failed_at) < COALESCE($3::timestamptz, 'infinity')
             ORDER BY COALESCE(completed_at, failed_at) DESC LIMIT $1::integer) newest
), reached AS (
    SELECT max(first_at) AS at
      FROM (SELECT min(at) AS first_at FROM ended GROUP BY status HAVING count(*) >= $1) full_ones
)
SELECT status, task_name, error_code, min(at) AS began_at, max(at) AS at, count(*) AS count, max(id) AS id,
       (SELECT at FROM reached) AS reached
  FROM ended
 WHERE error_code IS DISTINCT FROM 'OPERATOR_FAILED'
   /* by_itself */
 GROUP BY status, task_name, error_code, floor(extract(epoch FROM at) / 600)
 ORDER BY max(at) DESC
 LIMIT $4::integer

-- name: activity_attempts
-- views/activity.py; reads only: attempts that failed, counted by name and error code within ten minutes. They stay as
-- they are when their tasks are retried or requeued.
-- ($1 not before, $2 before, $3 slices, $4 attempts read of each at most, $5 attempts counted of each at most, $6 groups
-- at most)
-- By idx_horsies_task_attempts_finished_at_desc, which contains completed attempts as well: the first attempts of a full
-- slice represent all of it, if some of them failed. Small groups are not weighted.
WITH slice AS (
    SELECT $1::timestamptz + number * whole / $3::integer AS since, $1::timestamptz + (number + 1) * whole / $3::integer AS until
      FROM generate_series(0, $3::integer - 1) AS number
     CROSS JOIN (SELECT LEAST(COALESCE($2::timestamptz, statement_timestamp()), statement_timestamp()) - $1::timestamptz) range (whole)
), read AS MATERIALIZED (
    SELECT slice.since, slice.until, first.*
      FROM slice
     CROSS JOIN LATERAL (
            SELECT task_id, /* failed_attempt */ AS failed, error_code, finished_at AS at
              FROM horsies_task_attempts
             WHERE finished_at >= slice.since AND finished_at < slice.until
             ORDER BY finished_at LIMIT $4::integer) first
), weights AS (
    SELECT part.since, GREATEST(counted.rows::float8 / part.rows, 1) AS weight
      FROM (SELECT since, until, count(*) AS rows, bool_or(failed) AS failed FROM read GROUP BY since, until) part
     CROSS JOIN LATERAL (
            SELECT count(*) AS rows
              FROM (SELECT FROM horsies_task_attempts
                     WHERE part.failed AND part.rows >= $4::integer
                       AND finished_at >= part.since AND finished_at < part.until LIMIT $5::integer) each) counted
)
SELECT 'FAILED' AS status, task.task_name, error_code, min(at) AS began_at, max(at) AS at,
       CASE WHEN count(*) < 5 THEN count(*) ELSE round(sum(weight)) END::bigint AS count, max(read.task_id) AS id
  FROM read
  JOIN weights USING (since)
 CROSS JOIN LATERAL (SELECT task_name FROM horsies_tasks WHERE id = read.task_id LIMIT 1) task
 WHERE failed
 GROUP BY task.task_name, error_code, floor(extract(epoch FROM at) / 600)
 ORDER BY max(at) DESC
 LIMIT $6::integer

-- name: activity_outages
-- views/activity.py; reads only: times in which no worker stored a heartbeat, the current one included
-- ($1 outages at most, $2 not before, $3 before, $4 how long before and after its beginning snapshots are read, in s,
-- $5 snapshots read of each at most)
-- The snapshots around its beginning show whether all workers had been stopped by then, and whether one of them
-- reported again after it.
WITH outage AS (
    (SELECT began_at, ended_at, false AS lasts FROM horsies_outages
      WHERE ended_at >= $2::timestamptz AND began_at < COALESCE($3::timestamptz, 'infinity')
      ORDER BY ended_at DESC, id DESC LIMIT $1::integer)
     UNION ALL
    -- A scheduler of an earlier release does not report how long it may pause.
    SELECT beaten_at, statement_timestamp(), true FROM horsies_pulse
     WHERE statement_timestamp() - beaten_at > COALESCE(may_pause, interval '1 min')
       AND beaten_at < COALESCE($3::timestamptz, 'infinity')
)
SELECT outage.*, COALESCE(around.stopped, false) AS stopped, COALESCE(around.survived, false) AS survived
  FROM outage
 CROSS JOIN LATERAL (
        SELECT bool_and(processes = 0) AS stopped, bool_or(EXISTS (
                    SELECT FROM horsies_worker_states
                     WHERE worker_id = newest.worker_id AND snapshot_at >= outage.ended_at)) AS survived
          FROM (SELECT DISTINCT ON (worker_id) worker_id, processes
                  FROM (SELECT worker_id, snapshot_at, processes FROM horsies_worker_states
                         WHERE snapshot_at > outage.began_at - $4::float8 * interval '1 s'
                           AND snapshot_at < LEAST(outage.ended_at, outage.began_at + $4::float8 * interval '1 s')
                         ORDER BY snapshot_at DESC LIMIT $5::integer) read
                 ORDER BY worker_id, snapshot_at DESC) newest) around
 ORDER BY ended_at DESC

-- name: activity_sweeps
-- views/activity.py; reads only: what sweeps changed beside the tasks of lost workers ($1 rows at most, $2 not before,
-- $3 before)
SELECT worker_id, swept_at AS at, expired, repairs, workflows
  FROM horsies_sweeps
 WHERE swept_at >= $2::timestamptz AND swept_at < COALESCE($3::timestamptz, 'infinity')
 ORDER BY swept_at DESC, id DESC
 LIMIT $1::integer

-- name: activity_task_by_itself
-- fragment of `activity_task_ends`; reads only: an operator's statement writes the end and the audit row at one time
   AND NOT EXISTS (SELECT FROM horsies_operator_actions
                    WHERE target_kind = 'task' AND target_id = ended.id AND outcome = 'applied' AND acted_at = at)

-- name: activity_workflow_by_itself
-- fragment of `activity_workflow_ends`; reads only: a transaction writes the end and the audit row
   AND NOT EXISTS (SELECT FROM horsies_operator_actions
                    WHERE target_kind = 'workflow' AND target_id IN (newest.id, newest.root_workflow_id)
                      AND outcome = 'applied'
                      AND abs(date_part('epoch', acted_at) - date_part('epoch', at)) <= 5)

-- name: activity_workflow_ends
-- views/activity.py; reads only: workflows that failed or were cancelled, of those that were started last
-- ($1 workflows at most, $2 not before, $3 before)
SELECT id, name, status, at
  FROM (SELECT id, name, status, root_workflow_id, COALESCE(completed_at, updated_at, created_at) AS at
          FROM horsies_workflows
         WHERE status IN ('FAILED', 'CANCELLED')
         ORDER BY created_at DESC, id DESC LIMIT $1::integer) newest
 WHERE at >= $2::timestamptz AND at < COALESCE($3::timestamptz, 'infinity')
   /* by_itself */
 ORDER BY at DESC

-- name: activity_recoveries
-- views/activity.py; reads only: tasks that sweeps or operators recovered from workers, summed up by the minute
-- ($1 rows at most, $2 not before, $3 before)
SELECT worker_id, max(taken_at) AS at, sum(cardinality(failed))::integer AS failed,
       sum(cardinality(retried))::integer AS retried, sum(cardinality(returned))::integer AS returned
  FROM (SELECT * FROM horsies_worker_losses
         WHERE taken_at >= $2::timestamptz AND taken_at < COALESCE($3::timestamptz, 'infinity')
         ORDER BY taken_at DESC, id DESC LIMIT $1::integer) newest
 GROUP BY worker_id, date_trunc('minute', taken_at)
 ORDER BY at DESC

-- name: mark_operations
-- views/activity.py; reads only ($1 first bucket, $2 length of a bucket, $3 how many): the buckets in which an operator
-- acted, by one probe of ix_horsies_operator_actions_latest each
SELECT number
  FROM generate_series(0, $3::integer - 1) AS number
 CROSS JOIN LATERAL (
        SELECT acted_at FROM horsies_operator_actions
         WHERE acted_at >= $1::timestamptz + number * $2::interval
           AND acted_at < $1::timestamptz + (number + 1) * $2::interval
         ORDER BY acted_at DESC, id DESC LIMIT 1) newest
 ORDER BY number
