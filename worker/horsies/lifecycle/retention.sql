-- name: retention_settings
-- retention.ages_in_use; reads only. The values of the newest snapshot of all workers
SELECT worker_id, recovery_config
  FROM horsies_worker_states
 WHERE recovery_config IS NOT NULL
 ORDER BY snapshot_at DESC
 LIMIT 1

-- name: retention_now
-- retention.overdue_by; reads only
SELECT statement_timestamp() AS now

-- name: prune_lock
-- retention.py, before its families are pruned; the roots of these workflows, or the workflow itself if its root was
-- deleted; skips locked ones: every transaction that changes a family holds its root
-- ($1 ids)
SELECT id FROM horsies_workflows
 WHERE id = ANY (ARRAY(
           SELECT COALESCE((SELECT id FROM horsies_workflows WHERE id = workflow.root_workflow_id LIMIT 1), workflow.id)
             FROM horsies_workflows workflow
            WHERE id = ANY ($1::text[])))
   FOR UPDATE SKIP LOCKED

-- name: old_rows
-- retention.py, a page of the scan of most tables; reads only
-- ($1 age in s, $2 and $3 after this time and id, $4 how many; `table`, `time` and `key` are those of the table)
SELECT /* key */ AS id, /* time */ AS after, /* key */ AS after_id, 1 AS rows
  FROM /* table */
 WHERE /* time */ < statement_timestamp() - $1 * interval '1 s' AND /* time */ >= $2 AND (/* time */, /* key */) > ($2, $3)
 ORDER BY /* time */, /* key */
 LIMIT $4

-- name: old_heartbeats
-- retention.py, a page of its scan; reads only ($1 age in s, $2 any time and $3 after this id, $4 how many)
-- In the order of the ids, which is that of the times. After a page without an old row nothing older follows, so the
-- page is empty.
SELECT id, sent_at AS after, id AS after_id, 1 AS rows
  FROM (SELECT id, sent_at FROM horsies_heartbeats WHERE id > $3 ORDER BY id LIMIT $4) page
 WHERE sent_at < statement_timestamp() - $1 * interval '1 s' AND $2::timestamptz IS NOT NULL
 ORDER BY id

-- name: old_schedule_runs
-- retention.py, a page of its scan; reads only ($1 age in s, $2 and $3 after this time and id, $4 how many)
-- The id is the slot and the name. A run that is not sent yet has infinity as its time.
SELECT run.id, sent_at AS after, run.id AS after_id, 1 AS rows
  FROM horsies_schedule_runs
 CROSS JOIN LATERAL (SELECT concat(to_json(slot) #>> '{}', '|', schedule_name))
            AS run (id)
 WHERE sent_at < statement_timestamp() - $1 * interval '1 s' AND sent_at >= $2 AND (sent_at, run.id) > ($2, $3)
 ORDER BY sent_at, run.id
 LIMIT $4

-- name: old_queue_samples
-- retention.py, a page of its scan; reads only ($1 age in s, $2 and $3 after this time and id, $4 how many)
-- The id is the second: its rows are deleted together.
SELECT id, min(sampled_at) AS after, id AS after_id, count(*)::integer AS rows
  FROM horsies_queue_samples
 CROSS JOIN LATERAL (SELECT floor(extract(epoch FROM sampled_at))::bigint AS id) second
 WHERE sampled_at < statement_timestamp() - $1 * interval '1 s' AND sampled_at >= $2 AND id > $3
 GROUP BY id
 ORDER BY id
 LIMIT $4

-- name: old_sweep_state
-- retention.py, a page of its scan; reads only ($1 age in s, $2 and $3 after this time and id, $4 how many)
-- Sweeps whose name contains a threshold: once no worker has that threshold, the sweep never runs again. A sweep in use
-- runs every 10 minutes or more often.
SELECT sweep AS id, ran_at AS after, sweep AS after_id, 1 AS rows
  FROM horsies_sweep_state
 WHERE sweep LIKE '% %' AND ran_at < statement_timestamp() - $1 * interval '1 s' AND ran_at >= $2
   AND (ran_at, sweep) > ($2, $3)
 ORDER BY ran_at, sweep
 LIMIT $4

-- name: old_tasks
-- retention.py, a page of its scan; reads only ($1 age in s, $2 and $3 after this time and id, $4 how many)
-- `rows`: attempts are deleted with their task.
SELECT id, COALESCE(completed_at, failed_at) AS after, id AS after_id, LEAST(GREATEST(retry_count, 0), 1000) + 2 AS rows
  FROM horsies_tasks task
 WHERE status IN /* ended_tasks */
   AND COALESCE(completed_at, failed_at) < statement_timestamp() - $1 * interval '1 s'
   AND COALESCE(completed_at, failed_at) >= $2 AND (COALESCE(completed_at, failed_at), id) > ($2, $3)
       -- Not EXISTS, which is planned as a join that reads all nodes of unfinished workflows for each page.
   AND (SELECT workflow.id FROM horsies_workflow_tasks node
          JOIN horsies_workflows workflow ON workflow.id = node.workflow_id
         WHERE node.task_id = task.id AND workflow.status NOT IN /* ended_workflows */
         LIMIT 1) IS NULL
 ORDER BY COALESCE(completed_at, failed_at), id
 LIMIT $4

-- name: old_untimed_tasks
-- retention.py, a page of its scan; reads only ($1 age in s, $2 and $3 after this time and id, $4 how many)
-- Final, but without a time of the end: upstream cancels that way, and so does plain SQL. The row must not have been
-- changed recently.
SELECT id, created_at AS after, id AS after_id, LEAST(GREATEST(retry_count, 0), 1000) + 2 AS rows
  FROM horsies_tasks task
 WHERE status IN /* ended_tasks */ AND COALESCE(completed_at, failed_at) IS NULL
   AND created_at < statement_timestamp() - $1 * interval '1 s'
   AND updated_at < statement_timestamp() - $1 * interval '1 s'
   AND created_at >= $2 AND (created_at, id) > ($2, $3)
       -- Not EXISTS, which is planned as a join that reads all nodes of unfinished workflows for each page.
   AND (SELECT workflow.id FROM horsies_workflow_tasks node
          JOIN horsies_workflows workflow ON workflow.id = node.workflow_id
         WHERE node.task_id = task.id AND workflow.status NOT IN /* ended_workflows */
         LIMIT 1) IS NULL
 ORDER BY created_at, id
 LIMIT $4

-- name: old_workflows
-- retention.py, a page of its scan; reads only ($1 age in s, $2 and $3 after this time and id, $4 how many)
-- A tree is deleted as a whole, the parent with its children, once all of it is finished and old.
SELECT id, COALESCE(completed_at, updated_at, created_at) AS after, id AS after_id,
       1 + (SELECT count(*) FROM horsies_workflow_tasks WHERE workflow_id = workflow.id)::integer AS rows
  FROM horsies_workflows workflow
 WHERE status IN /* ended_workflows */
   AND COALESCE(completed_at, updated_at, created_at) < statement_timestamp() - $1 * interval '1 s'
   AND COALESCE(completed_at, updated_at, created_at) >= $2
   AND (COALESCE(completed_at, updated_at, created_at), id) > ($2, $3)
   AND NOT EXISTS (SELECT FROM horsies_workflows relative
                    WHERE (relative.root_workflow_id = COALESCE(workflow.root_workflow_id, workflow.id)
                           OR relative.id = COALESCE(workflow.root_workflow_id, workflow.id))
                      AND (relative.status NOT IN /* ended_workflows */
                           OR COALESCE(relative.completed_at, relative.updated_at, relative.created_at)
                              >= statement_timestamp() - $1 * interval '1 s'))
 ORDER BY COALESCE(completed_at, updated_at, created_at), id
 LIMIT $4

-- name: prune_rows
-- retention.py, the rows of most tables; still old enough: one that was renewed in the meantime is kept
-- ($1 age in s, $2 ids; `table`, `time` and `key` are those of the table)
WITH gone AS (
    DELETE FROM /* table */
     WHERE /* key */ = ANY ($2) AND /* time */ < statement_timestamp() - $1 * interval '1 s'
    RETURNING /* key */
)
SELECT count(*) AS rows FROM gone

-- name: prune_operator_actions
-- retention.py; still old enough; skips an action that a running undo refers to ($1 age in s, $2 ids)
-- A younger action that undid a deleted one stays, and its `undoes` is set to NULL.
WITH gone AS (
    DELETE FROM horsies_operator_actions
     WHERE id = ANY (ARRAY(
               SELECT id FROM horsies_operator_actions
                WHERE id = ANY ($2::bigint[]) AND acted_at < statement_timestamp() - $1 * interval '1 s'
                  FOR UPDATE SKIP LOCKED))
    RETURNING id
)
SELECT count(*) AS rows FROM gone

-- name: prune_schedule_runs
-- retention.py; still old enough ($1 age in s, $2 ids as of `old_schedule_runs`)
WITH gone AS (
    DELETE FROM horsies_schedule_runs run
     USING (SELECT split_part(id, '|', 1)::timestamptz AS slot, substr(id, strpos(id, '|') + 1) AS name FROM unnest($2::text[]) AS given (id)) old
     WHERE run.schedule_name = old.name AND run.slot = old.slot
       AND run.sent_at < statement_timestamp() - $1 * interval '1 s'
    RETURNING run.slot
)
SELECT count(*) AS rows FROM gone

-- name: prune_queue_samples
-- retention.py; still old enough ($1 age in s, $2 ids as of `old_queue_samples`)
WITH gone AS (
    DELETE FROM horsies_queue_samples
     USING unnest($2::bigint[]) AS given (id)
     WHERE sampled_at >= to_timestamp(id) AND sampled_at < to_timestamp(id + 1)
       AND sampled_at < statement_timestamp() - $1 * interval '1 s'
    RETURNING queue_name
)
SELECT count(*) AS rows FROM gone

-- name: prune_tasks
-- retention.py; still final, old enough and of no unfinished workflow; skips locked rows ($1 age in s, $2 ids)
-- Deletes the reported progress of their runs, too.
WITH gone AS (
    DELETE FROM horsies_tasks
     WHERE id = ANY (ARRAY(
               SELECT id FROM horsies_tasks task
                WHERE id = ANY ($2::text[])
                      -- Inside a CASE only the primary key fits, also if the other indexes look empty (see `start`).
                  AND CASE WHEN status IN /* ended_tasks */
                           THEN COALESCE(completed_at, failed_at, updated_at, created_at)
                                < statement_timestamp() - $1 * interval '1 s' END
                  AND (SELECT workflow.id FROM horsies_workflow_tasks node
                         JOIN horsies_workflows workflow ON workflow.id = node.workflow_id
                        WHERE node.task_id = task.id AND workflow.status NOT IN /* ended_workflows */
                        LIMIT 1) IS NULL
                  FOR UPDATE OF task SKIP LOCKED))
    RETURNING id
), progress AS (
    DELETE FROM horsies_progress WHERE task_id = ANY (ARRAY(SELECT id FROM gone))
), duplicates AS (
    DELETE FROM horsies_duplicate_sends WHERE task_id = ANY (ARRAY(SELECT id FROM gone))
)
SELECT count(*) AS rows FROM gone

-- name: prune_workflows
-- retention.py; their families are locked, and all of each is still finished and old enough; skips locked rows
-- ($1 age in s, $2 ids, $3 roots that are locked)
WITH whole AS MATERIALIZED (
    -- As in `old_workflows`, checked again: in a family that was reopened since, the other workflows are still old.
    SELECT root.id
      FROM unnest($3::text[]) AS root (id)
     WHERE (SELECT relative.id FROM horsies_workflows relative
             WHERE (relative.root_workflow_id = root.id OR relative.id = root.id)
               AND CASE WHEN relative.status IN /* ended_workflows */
                        THEN COALESCE(relative.completed_at, relative.updated_at, relative.created_at)
                             >= statement_timestamp() - $1 * interval '1 s'
                        ELSE true END
             LIMIT 1) IS NULL
), finished AS MATERIALIZED (
    SELECT id FROM horsies_workflows
     WHERE id = ANY ($2::text[])
       AND CASE WHEN status IN /* ended_workflows */
                THEN id IN (SELECT id FROM whole) OR root_workflow_id IN (SELECT id FROM whole) END
       FOR UPDATE SKIP LOCKED
), nodes AS (
    DELETE FROM horsies_workflow_tasks WHERE workflow_id = ANY (ARRAY(SELECT id FROM finished)) RETURNING id
), gone AS (
    DELETE FROM horsies_workflows WHERE id = ANY (ARRAY(SELECT id FROM finished)) RETURNING id
)
SELECT (SELECT count(*) FROM gone) AS rows, (SELECT count(*) FROM nodes) AS members
