-- name: resume_schedule
-- verbs/schedules/resume.py; paused by the same order as the operator saw, and planned as it was read
-- ($1 to $6 as in `operation`, $7 schedules, $8 the audit rows that this undoes, $9 paused at, $10 next runs as
-- read, $11 next runs)
WITH /* operation */, asked AS (
    SELECT * FROM unnest($7::text[], $8::bigint[], $9::timestamptz[], $10::timestamptz[], $11::timestamptz[])
                  WITH ORDINALITY AS asked (schedule_name, undoes, since, seen, next_run_at, number)
), planned AS MATERIALIZED (
    -- As a scheduler does, the plan first.
    SELECT state.schedule_name, state.next_run_at
      FROM horsies_schedule_state state
      JOIN asked USING (schedule_name)
     ORDER BY state.schedule_name
       FOR NO KEY UPDATE OF state
), taken AS MATERIALIZED (
    SELECT known.schedule_name, known.paused_at, known.paused_by, known.reason, planned.next_run_at AS was,
           asked.next_run_at, asked.undoes, asked.number
      FROM horsies_schedules known
      JOIN asked USING (schedule_name)
      LEFT JOIN planned USING (schedule_name)
     WHERE known.paused_at = asked.since AND planned.next_run_at IS NOT DISTINCT FROM asked.seen
     ORDER BY known.schedule_name
       FOR NO KEY UPDATE OF known
), resumed AS (
    UPDATE horsies_schedules known
       SET paused_at = NULL, paused_by = NULL, reason = NULL
      FROM taken
     WHERE known.schedule_name = taken.schedule_name
    RETURNING known.schedule_name
), moved AS (
    UPDATE horsies_schedule_state state
       SET next_run_at = taken.next_run_at, updated_at = statement_timestamp()
      FROM taken
     WHERE state.schedule_name = taken.schedule_name AND state.next_run_at < taken.next_run_at
), audited AS (
    SELECT 'schedule' AS kind, schedule_name AS id, 'applied' AS outcome, NULL AS detail,
           jsonb_build_object('paused_at', paused_at, 'paused_by', paused_by, 'reason', reason,
                              'next_run_at', was) AS before,
           jsonb_build_object('paused_at', NULL, 'next_run_at', next_run_at) AS after, undoes, number
      FROM resumed
      JOIN taken USING (schedule_name)
), /* audit */
SELECT schedule_name FROM resumed
