-- name: pause_schedule
-- verbs/schedules/pause.py; not paused yet
-- ($1 to $6 as in `operation`, $7 schedules, $8 the audit rows that this undoes)
-- A scheduler that is sending a slot holds a lock on the row: this waits for it, and no later slot is sent.
WITH /* operation */, taken AS (
    SELECT known.schedule_name, asked.undoes, asked.number
      FROM unnest($7::text[], $8::bigint[]) WITH ORDINALITY AS asked (schedule_name, undoes, number)
      JOIN horsies_schedules known USING (schedule_name)
     WHERE known.paused_at IS NULL
     ORDER BY known.schedule_name
       FOR NO KEY UPDATE OF known
), paused AS (
    UPDATE horsies_schedules known
       SET paused_at = statement_timestamp(), paused_by = operation.os_user || '@' || operation.os_host,
           reason = operation.reason
      FROM taken, operation
     WHERE known.schedule_name = taken.schedule_name
    RETURNING known.schedule_name, known.paused_at
), audited AS (
    SELECT 'schedule' AS kind, schedule_name AS id, 'applied' AS outcome, NULL AS detail,
           jsonb_build_object('paused_at', NULL) AS before, jsonb_build_object('paused_at', paused_at) AS after,
           taken.undoes, taken.number
      FROM paused
      JOIN taken USING (schedule_name)
), /* audit */
SELECT schedule_name FROM paused
