-- name: sweep_duty
-- sweep_state.take_duty; moves ran_at forward, and only if it is an interval old: of many callers, one gets the duty
-- ($1 sweep, $2 worker, $3 interval in ms)
WITH won AS (
    INSERT INTO horsies_sweep_state AS state (sweep, ran_at, worker_id, interval_ms)
    SELECT $1, statement_timestamp(), $2, $3::integer
           -- A call that comes too early must only read: a conflicting insert locks the row and writes WAL even if it
           -- loses.
     WHERE NOT EXISTS (SELECT FROM horsies_sweep_state
                        WHERE sweep = $1 AND ran_at > statement_timestamp() - $3::integer * interval '1 ms'
                          AND ran_at <= statement_timestamp())
        ON CONFLICT (sweep) DO UPDATE
       SET ran_at = excluded.ran_at, worker_id = excluded.worker_id, interval_ms = excluded.interval_ms
     WHERE state.ran_at <= excluded.ran_at - $3::integer * interval '1 ms'
           -- A time in the future was left by a wrong server clock; without this no worker would sweep until then.
           -- Another worker's statement may have begun a moment after this one, hence the minute.
        OR state.ran_at > excluded.ran_at + interval '1 min'
    RETURNING sweep
)
SELECT EXISTS (SELECT FROM won) AS won,
       (SELECT date_part('epoch', LEAST(ran_at, statement_timestamp())) + $3::integer / 1000.0::float8
               - date_part('epoch', statement_timestamp())
          FROM horsies_sweep_state WHERE sweep = $1) AS due_in_s

-- name: sweep_report
-- sweep_state.write_report; the report: still this worker's duty; each row of horsies_sweeps is new
-- ($1 sweep, $2 worker, $3 report)
WITH history AS (
    INSERT INTO horsies_sweeps (worker_id, expired, repairs, workflows)
    SELECT $2, COALESCE(expired, 0), COALESCE(repairs, 0), COALESCE(workflows, 0)
      FROM jsonb_to_record($3::jsonb) AS done (expired integer, repairs integer, workflows integer)
     WHERE expired > 0 OR repairs > 0
)
UPDATE horsies_sweep_state SET report = $3::jsonb WHERE sweep = $1 AND worker_id = $2
