-- adapts existing tables, upstream's or those of our earlier versions; run by upgrade.py before the other parts

-- The other parts create missing tables as a whole. This one changes tables, columns and defaults that exist but differ
-- from the other parts. In an empty schema it finds nothing. It comes first, because indexes and triggers need the
-- columns.

ALTER TABLE IF EXISTS horsies_tasks
    ADD COLUMN IF NOT EXISTS is_workflow_task        boolean NOT NULL DEFAULT false,
    ADD COLUMN IF NOT EXISTS finalizing_at           timestamptz,
    ADD COLUMN IF NOT EXISTS finalizing_by_worker_id text,
    ADD COLUMN IF NOT EXISTS unique_key              varchar(255),
    ADD COLUMN IF NOT EXISTS rerun_of                varchar(36),
    ADD COLUMN IF NOT EXISTS workflow_paused_at      timestamptz,
    ADD COLUMN IF NOT EXISTS uncounted_claim_at      timestamptz;
ALTER TABLE IF EXISTS horsies_task_attempts
    ADD COLUMN IF NOT EXISTS output    text,
    ADD COLUMN IF NOT EXISTS waited_ms integer;
ALTER TABLE IF EXISTS horsies_worker_states
    ADD COLUMN IF NOT EXISTS children_memory_mb  double precision,
    ADD COLUMN IF NOT EXISTS task_names          text[],
    ADD COLUMN IF NOT EXISTS horsies_version     text,
    ADD COLUMN IF NOT EXISTS draining            boolean,
    ADD COLUMN IF NOT EXISTS app_version         text,
    ADD COLUMN IF NOT EXISTS container_memory_mb double precision,
    ADD COLUMN IF NOT EXISTS container_limit_mb  double precision,
    ADD COLUMN IF NOT EXISTS largest_child_mb    double precision,
    ADD COLUMN IF NOT EXISTS largest_child_pid   integer,
    ADD COLUMN IF NOT EXISTS child_limit_mb      double precision;

-- Upstream stores UTC in columns without a time zone. One ALTER per table, so that a table is rewritten at most once;
-- the default is dropped first, because now()::timestamp would be converted as the local time of the session that
-- migrates.
DO $$
DECLARE
    naive record;
BEGIN
    FOR naive IN
        SELECT attrelid::regclass AS table_name,
               pg_catalog.string_agg(
                   pg_catalog.format('ALTER COLUMN %1$I DROP DEFAULT, '
                                     'ALTER COLUMN %1$I TYPE timestamptz USING %1$I AT TIME ZONE ''UTC''', attname), ', ')
                   AS changes
          FROM pg_attribute
         WHERE attrelid IN (SELECT pg_catalog.to_regclass('horsies_' || name)
                              FROM pg_catalog.unnest('{tasks,task_attempts,heartbeats,worker_states,schedule_state,
                                                       workflows,workflow_tasks}'::text[]) AS name)
           AND atttypid = 'timestamp'::regtype AND NOT attisdropped
         GROUP BY attrelid
    LOOP
        EXECUTE pg_catalog.format('ALTER TABLE %s %s', naive.table_name, naive.changes);
    END LOOP;
END
$$;

-- int4 overflows: 100 running tasks that beat every 30 s use up 2^31 ids in 20 years, 1 000 that beat every second in
-- 25 days.
DO $$
DECLARE
    short regclass;
BEGIN
    FOR short IN
        SELECT attrelid::regclass
          FROM pg_attribute
         WHERE attrelid IN (pg_catalog.to_regclass('horsies_heartbeats'), pg_catalog.to_regclass('horsies_worker_states'))
           AND attname = 'id' AND atttypid = 'integer'::regtype
    LOOP
        EXECUTE pg_catalog.format('ALTER TABLE %s ALTER COLUMN id TYPE bigint', short);
        EXECUTE pg_catalog.format('ALTER SEQUENCE %s AS bigint', pg_catalog.pg_get_serial_sequence(short::text, 'id'));
    END LOOP;
END
$$;

-- Upstream leaves these defaults to the application; rows inserted with plain SQL need them.
ALTER TABLE IF EXISTS horsies_tasks
    ALTER COLUMN priority    SET DEFAULT 100,
    ALTER COLUMN status      SET DEFAULT 'PENDING',
    ALTER COLUMN enqueued_at SET DEFAULT now(),
    ALTER COLUMN claimed     SET DEFAULT false,
    ALTER COLUMN retry_count SET DEFAULT 0,
    ALTER COLUMN max_retries SET DEFAULT 0,
    ALTER COLUMN enqueue_sha SET DEFAULT 'legacy-pre-sha',
    ALTER COLUMN created_at  SET DEFAULT now(),
    ALTER COLUMN updated_at  SET DEFAULT now();
ALTER TABLE IF EXISTS horsies_task_attempts
    ALTER COLUMN will_retry SET DEFAULT false,
    ALTER COLUMN created_at SET DEFAULT now();
ALTER TABLE IF EXISTS horsies_heartbeats ALTER COLUMN sent_at SET DEFAULT now();
ALTER TABLE IF EXISTS horsies_worker_states
    ALTER COLUMN snapshot_at   SET DEFAULT now(),
    ALTER COLUMN tasks_running SET DEFAULT 0,
    ALTER COLUMN tasks_claimed SET DEFAULT 0;
ALTER TABLE IF EXISTS horsies_schedule_state
    ALTER COLUMN run_count  SET DEFAULT 0,
    ALTER COLUMN updated_at SET DEFAULT now();
ALTER TABLE IF EXISTS horsies_workflows
    ALTER COLUMN on_error   SET DEFAULT 'fail',
    ALTER COLUMN depth      SET DEFAULT 0,
    ALTER COLUMN sent_at    SET DEFAULT now(),
    ALTER COLUMN created_at SET DEFAULT now(),
    ALTER COLUMN updated_at SET DEFAULT now();
ALTER TABLE IF EXISTS horsies_workflow_tasks
    ALTER COLUMN queue_name        SET DEFAULT 'default',
    ALTER COLUMN priority          SET DEFAULT 100,
    ALTER COLUMN dependencies      SET DEFAULT '{}',
    ALTER COLUMN allow_failed_deps SET DEFAULT false,
    ALTER COLUMN join_type         SET DEFAULT 'all',
    ALTER COLUMN is_subworkflow    SET DEFAULT false,
    ALTER COLUMN created_at        SET DEFAULT now();

-- Upstream indexes queue_name, status, claimed, good_until, next_retry_at and claim_expires_at of every task, finished
-- or not. No update that changes `status` can be heap-only, so each of the three updates in the life of a task writes
-- all of them again. The indexes that replace them contain a row only in the states in which it is looked up by that
-- column. Claim, start and finish with attempt row, over 50 000 finished tasks, upstream's indexes against ours: batch
-- 1: 1 380 and 1 430 tasks/s, batch 10: 8 000 and 9 100, batch 50: 14 800 and 18 200; 22 to 24 % less WAL in each.
DROP INDEX IF EXISTS ix_horsies_tasks_queue_name, ix_horsies_tasks_status, ix_horsies_tasks_claimed,
    ix_horsies_tasks_good_until, ix_horsies_tasks_next_retry_at, ix_horsies_tasks_claim_expires_at;
-- Of upstream's indexes of nodes, the first is a prefix of uq_horsies_workflow_task_index, and was chosen for a node
-- when statistics were from a quiet hour: all nodes of its workflow were read. Node ids and indexes of dependencies are
-- the same in all workflows of a kind, so no statement looks for them alone. Each of the four updates in the life of a
-- node wrote them all again: 5 950 bytes of WAL for a node and its task, 4 570 without.
DROP INDEX IF EXISTS ix_horsies_workflow_tasks_workflow_id, ix_horsies_workflow_tasks_node_id,
    idx_horsies_workflow_tasks_deps;

-- Up to version 14.
ALTER TABLE IF EXISTS horsies_pulse ADD COLUMN IF NOT EXISTS may_pause interval;
ALTER TABLE IF EXISTS horsies_schedulers ADD COLUMN IF NOT EXISTS lost_after_s double precision;
-- A fragment of the statements has taken its place.
DROP FUNCTION IF EXISTS horsies_join_needs(varchar, integer, integer[]);

-- Up to version 13.
ALTER TABLE IF EXISTS horsies_operator_actions ALTER COLUMN db_role SET DEFAULT session_user;

-- Up to version 12 a key was unique among the tasks of all names, so the index that replaces it finds no two rows alike.
DROP INDEX IF EXISTS uq_horsies_tasks_unique_key;

-- Of our versions 7 to 10: the first is no longer used, the others have got other parameters or results.
DROP FUNCTION IF EXISTS horsies_held_tasks(), horsies_claimable(text, text[], integer, text[]),
    horsies_ready_by_name(text, text[], integer), horsies_ready_until(text, text[], integer);
