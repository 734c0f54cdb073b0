-- name: skip_slot
-- verbs/schedules/skip.py; not paused, and the slot that the operator saw is still the next one and is sent by no
-- scheduler ($1 to $6 as in `operation`, $7 schedules, $8 the audit rows that this undoes, $9 slots)
WITH /* operation */, planned AS MATERIALIZED (
    -- As a scheduler does, the plan first.
    SELECT state.schedule_name, asked.slot, asked.undoes, asked.number
      FROM unnest($7::text[], $8::bigint[], $9::timestamptz[]) WITH ORDINALITY
           AS asked (schedule_name, undoes, slot, number)
      JOIN horsies_schedule_state state USING (schedule_name)
     WHERE state.next_run_at = asked.slot
     ORDER BY state.schedule_name
       FOR NO KEY UPDATE OF state
), taken AS MATERIALIZED (
    SELECT planned.*, known.skip_slot AS was
      FROM horsies_schedules known
      JOIN planned USING (schedule_name)
     WHERE known.paused_at IS NULL AND known.skip_slot IS DISTINCT FROM planned.slot
     ORDER BY known.schedule_name
       FOR NO KEY UPDATE OF known
), skipped AS (
    UPDATE horsies_schedules known
       SET skip_slot = taken.slot, skipped_by = operation.os_user || '@' || operation.os_host
      FROM taken, operation
     WHERE known.schedule_name = taken.schedule_name
    RETURNING known.schedule_name
), audited AS (
    SELECT 'schedule' AS kind, schedule_name AS id, 'applied' AS outcome, NULL AS detail,
           jsonb_build_object('skip_slot', was) AS before, jsonb_build_object('skip_slot', slot) AS after,
           undoes, number
      FROM skipped
      JOIN taken USING (schedule_name)
), /* audit */
SELECT schedule_name FROM skipped

-- name: take_skip_back
-- operations/undo.py; the slot that was skipped has not passed
-- ($1 to $6 as in `operation`, $7 schedules, $8 the audit rows that this undoes, $9 slots)
WITH /* operation */, taken AS (
    SELECT known.schedule_name, known.skip_slot, asked.undoes, asked.number
      FROM unnest($7::text[], $8::bigint[], $9::timestamptz[]) WITH ORDINALITY
           AS asked (schedule_name, undoes, slot, number)
      JOIN horsies_schedules known USING (schedule_name)
     WHERE known.skip_slot = asked.slot
     ORDER BY known.schedule_name
       FOR NO KEY UPDATE OF known
), restored AS (
    UPDATE horsies_schedules known SET skip_slot = NULL, skipped_by = NULL
      FROM taken
     WHERE known.schedule_name = taken.schedule_name
    RETURNING known.schedule_name
), audited AS (
    SELECT 'schedule' AS kind, schedule_name AS id, 'applied' AS outcome, NULL AS detail,
           jsonb_build_object('skip_slot', skip_slot) AS before, jsonb_build_object('skip_slot', NULL) AS after, undoes,
           number
      FROM restored
      JOIN taken USING (schedule_name)
), /* audit */
SELECT schedule_name FROM restored
