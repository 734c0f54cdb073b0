-- the pulse of the database: which workers count as dead, and when none may; a part of the schema, run by upgrade.py

-- The pulse: when this database last took a heartbeat, and when it took none. One row; a worker writes it only if it is
-- older than its own interval, so that 200 workers write it as often as one. Without the row silence alone counts. The
-- first pulse after a gap stores the gap: the server, the network, a lock or a full disk prevented all beats, or no
-- worker was running. The tables do not show which, so all are treated the same way.
CREATE TABLE IF NOT EXISTS horsies_pulse (
    only_row  boolean        PRIMARY KEY DEFAULT true,
    beaten_at timestamptz    NOT NULL,
    gaps      tstzmultirange NOT NULL DEFAULT '{}',
    -- When a sweeping command found that no worker pulses: from then on a live one has the spare period to do so.
    asked_at  timestamptz,
    -- The shortest gap that matters to one of the workers, which wrote last at `least_at`: another worker, to which
    -- only longer ones matter, may be the first to pulse after it.
    least_gap interval,
    least_at  timestamptz,
    -- The longest time until the next pulse that is no outage.
    may_pause interval,
    CONSTRAINT ck_horsies_pulse_only_row CHECK (only_row)
) WITH (fillfactor = 50, autovacuum_vacuum_threshold = 500, autovacuum_vacuum_scale_factor = 0);

-- Each sweep computes with these times: one that is infinite or of year 4000 BC would make all of them fail. A row
-- written by hand is refused, and one of an older version that has such a time goes. The bounds are the years 2000 and
-- 9000.
DELETE FROM horsies_pulse
 WHERE NOT (beaten_at BETWEEN pg_catalog.to_timestamp(946684800) AND pg_catalog.to_timestamp(221845392000)
            AND asked_at BETWEEN pg_catalog.to_timestamp(946684800) AND pg_catalog.to_timestamp(221845392000)
            AND gaps OPERATOR(pg_catalog.<@) pg_catalog.tstzrange(pg_catalog.to_timestamp(946684800),
                                                                  pg_catalog.to_timestamp(221845392000)));
ALTER TABLE horsies_pulse DROP CONSTRAINT IF EXISTS ck_horsies_pulse_times;
ALTER TABLE horsies_pulse ADD CONSTRAINT ck_horsies_pulse_times
    CHECK (beaten_at BETWEEN pg_catalog.to_timestamp(946684800) AND pg_catalog.to_timestamp(221845392000)
           AND asked_at BETWEEN pg_catalog.to_timestamp(946684800) AND pg_catalog.to_timestamp(221845392000)
           AND gaps OPERATOR(pg_catalog.<@) pg_catalog.tstzrange(pg_catalog.to_timestamp(946684800),
                                                                 pg_catalog.to_timestamp(221845392000)));

-- The outages that have ended: times in which no worker stored a heartbeat. The gaps above are those that a sweep still
-- needs; these stay for the history until retention deletes them, and are shorter.
CREATE TABLE IF NOT EXISTS horsies_outages (
    id       bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    began_at timestamptz NOT NULL,
    ended_at timestamptz NOT NULL DEFAULT now(),
    -- As those of the pulse, below.
    CONSTRAINT ck_horsies_outages_times
        CHECK (began_at >= pg_catalog.to_timestamp(946684800) AND began_at <= ended_at
               AND ended_at <= pg_catalog.to_timestamp(221845392000))
);
CREATE INDEX IF NOT EXISTS ix_horsies_outages_latest ON horsies_outages (ended_at, id);
-- Up to version 14 the gaps were the only trace. That of exactly 3 h is the time before the first worker.
INSERT INTO horsies_outages (began_at, ended_at)
SELECT pg_catalog.lower(gap), pg_catalog.upper(gap)
  FROM horsies_pulse, pg_catalog.unnest(gaps) AS gap
 WHERE pg_catalog.upper(gap) - pg_catalog.lower(gap) <> interval '3 h'
   AND NOT EXISTS (SELECT FROM horsies_outages WHERE ended_at = pg_catalog.upper(gap));

-- The longest time between two pulses that is no outage: workers try every `every_ms`.
CREATE OR REPLACE FUNCTION horsies_longest_pause(every_ms double precision) RETURNS interval IMMUTABLE LANGUAGE sql
    RETURN GREATEST(2::float8 * every_ms, 10000) * interval '1 ms';

-- The longest gap that makes no live worker look dead: one that last beat an interval before it beats again before the
-- threshold.
CREATE OR REPLACE FUNCTION horsies_harmless_gap(threshold_ms double precision, beat_ms double precision)
    RETURNS interval IMMUTABLE LANGUAGE sql
    RETURN GREATEST(threshold_ms - 2::float8 * beat_ms, threshold_ms / 4::float8) * interval '1 ms';

-- How long a live worker may take to beat again after a gap: its interval, a quarter of it more, and the time to
-- connect.
CREATE OR REPLACE FUNCTION horsies_spare_period(beat_ms double precision) RETURNS interval IMMUTABLE LANGUAGE sql
    RETURN (1.25::float8 * beat_ms + LEAST(GREATEST(beat_ms / 2::float8, 1000), 5000)) * interval '1 ms';

-- Returns whether this call wrote the row. It inserts heartbeats and rolls them back, 9 kB of them: a full disk or a
-- read-only server stops the pulse as it stops the beats, and so does a lock on that table or on the tasks table, which
-- guards beats. `lives`: the caller is a worker, not a command that soon ends.
CREATE OR REPLACE FUNCTION horsies_pulse(every_ms double precision, own_gap interval, lives boolean)
    RETURNS boolean AS $$
DECLARE
    last    horsies_pulse%ROWTYPE;
    moment  timestamptz := statement_timestamp();
    matters interval := own_gap;
BEGIN
    IF EXISTS (SELECT FROM horsies_pulse
                WHERE beaten_at <= moment AND (beaten_at > moment - every_ms * interval '1 ms'
                                               OR NOT lives AND beaten_at > moment - matters)) THEN
        RETURN false;
    END IF;
    SELECT * INTO last FROM horsies_pulse FOR NO KEY UPDATE SKIP LOCKED;
    -- Another session is writing it or has done so, or no worker has ever pulsed here.
    IF NOT FOUND AND (NOT lives OR EXISTS (SELECT FROM horsies_pulse))
       OR last.beaten_at > moment - every_ms * interval '1 ms' AND last.beaten_at <= clock_timestamp() THEN
        RETURN false;
    END IF;
    LOCK TABLE horsies_tasks IN ROW EXCLUSIVE MODE;
    BEGIN
        INSERT INTO horsies_heartbeats (task_id, sender_id, role, hostname)
        SELECT 'pulse', pg_catalog.repeat('-', 255), 'pulse', pg_catalog.repeat('-', 255) FROM pg_catalog.generate_series(1, 16);
        RAISE EXCEPTION SQLSTATE 'HP000';
    EXCEPTION WHEN SQLSTATE 'HP000' THEN
        NULL;
    END;
    moment := clock_timestamp(); -- not from before it waited for a lock
    IF lives AND moment - last.beaten_at > horsies_longest_pause(every_ms) THEN
        INSERT INTO horsies_outages (began_at, ended_at) VALUES (last.beaten_at, moment);
    END IF;
    IF last.beaten_at IS NULL THEN
        INSERT INTO horsies_pulse (beaten_at, gaps, least_gap, least_at, may_pause)
        VALUES (moment, pg_catalog.tstzmultirange(pg_catalog.tstzrange(moment - interval '3 h', moment)), matters, moment,
                horsies_longest_pause(every_ms))
            ON CONFLICT (only_row) DO NOTHING;
    ELSIF lives THEN
        IF last.least_gap < matters AND last.least_at > last.beaten_at - interval '10 min' THEN
            matters := last.least_gap;
        END IF;
        UPDATE horsies_pulse
           SET beaten_at = moment, asked_at = NULL, least_gap = matters, may_pause = horsies_longest_pause(every_ms),
               least_at = CASE WHEN own_gap > matters THEN last.least_at ELSE moment END,
               gaps = CASE WHEN moment - last.beaten_at <= matters THEN gaps ELSE (
                          -- No threshold is longer than two hours.
                          SELECT pg_catalog.range_agg(gap) FROM (
                              SELECT gap
                                FROM pg_catalog.unnest(gaps OPERATOR(pg_catalog.+)
                                         pg_catalog.tstzmultirange(pg_catalog.tstzrange(last.beaten_at, moment))) AS gap
                               WHERE pg_catalog.upper(gap) > moment - interval '3 h'
                               ORDER BY pg_catalog.lower(gap) DESC LIMIT 100) AS newest) END;
    ELSE
        -- An earlier call counts for an hour, unless the server was started since.
        UPDATE horsies_pulse SET asked_at = moment
         WHERE COALESCE(asked_at < GREATEST(moment - interval '1 h', pg_postmaster_start_time()), true);
    END IF;
    RETURN FOUND;
END;
$$ LANGUAGE plpgsql;

-- Until when these settings spare runs and claims, because their workers may not have had the time to beat again.
CREATE OR REPLACE FUNCTION horsies_spared_until(threshold_ms double precision, beat_ms double precision)
    RETURNS timestamptz AS $$
    SELECT horsies_spare_period(beat_ms) + CASE
               WHEN statement_timestamp() - beaten_at > horsies_harmless_gap(threshold_ms, beat_ms)
               THEN CASE WHEN asked_at >= GREATEST(beaten_at, pg_postmaster_start_time())
                         THEN asked_at ELSE statement_timestamp() END
               ELSE (SELECT pg_catalog.max(pg_catalog.upper(gap)) FROM pg_catalog.unnest(gaps) AS gap
                      WHERE pg_catalog.upper(gap) - pg_catalog.lower(gap) > horsies_harmless_gap(threshold_ms, beat_ms)) END
      FROM horsies_pulse;
$$ LANGUAGE sql STABLE;

-- A run or claim that was silent since before this moment counts as dead. Until the spare period is over, only the time
-- counts in which the database could be written: however often it is unavailable, a dead worker is found after
-- `threshold_ms` of such time.
CREATE OR REPLACE FUNCTION horsies_silent_before(threshold_ms double precision, beat_ms double precision)
    RETURNS timestamptz AS $$
DECLARE
    cut    timestamptz := statement_timestamp() - threshold_ms * interval '1 ms';
    spared timestamptz := horsies_spared_until(threshold_ms, beat_ms);
    pulse  horsies_pulse%ROWTYPE;
    gap    tstzrange;
BEGIN
    IF spared IS NULL OR spared <= statement_timestamp() THEN
        RETURN cut;
    END IF;
    SELECT * INTO pulse FROM horsies_pulse;
    IF statement_timestamp() - pulse.beaten_at > horsies_harmless_gap(threshold_ms, beat_ms) THEN
        pulse.gaps := pulse.gaps OPERATOR(pg_catalog.+)
                      pg_catalog.tstzmultirange(pg_catalog.tstzrange(pulse.beaten_at, statement_timestamp()));
    END IF;
    FOR gap IN SELECT one FROM pg_catalog.unnest(pulse.gaps) AS one ORDER BY pg_catalog.lower(one) DESC LOOP
        EXIT WHEN pg_catalog.upper(gap) <= cut;
        cut := cut - (pg_catalog.upper(gap) - pg_catalog.lower(gap));
    END LOOP;
    RETURN cut;
END;
$$ LANGUAGE plpgsql STABLE;

-- The same for the runs of this worker. If it reported a longer threshold than that of the sweep, its own applies: it
-- determines its beats, and when it stops its runs before another worker may run them again.
CREATE OR REPLACE FUNCTION horsies_runs_silent_before(
    worker text, threshold_ms double precision, beat_ms double precision) RETURNS timestamptz AS $$
    SELECT CASE WHEN told.threshold_ms > $2 AND $3 IS NOT NULL -- an operator's order has its own rule, and no interval
                THEN LEAST(horsies_silent_before($2, $3), horsies_silent_before(told.threshold_ms, told.beat_ms))
                ELSE horsies_silent_before($2, $3) END
      FROM (SELECT 1) one
      LEFT JOIN LATERAL (
            SELECT (newest.recovery_config ->> 'running_stale_threshold_ms'::text)::float8 AS threshold_ms,
                   (newest.recovery_config ->> 'runner_heartbeat_interval_ms'::text)::float8 AS beat_ms
              FROM (SELECT worker_id, recovery_config::jsonb AS recovery_config FROM horsies_worker_states
                     WHERE worker_id::text >= worker
                     ORDER BY worker_id, snapshot_at DESC LIMIT 1) newest
             WHERE newest.worker_id::text = worker
               -- Of JSON, only numbers lie between two numbers; a larger one would overflow the interval made of it.
               AND newest.recovery_config -> 'running_stale_threshold_ms'::text BETWEEN '0' AND '100000000'
               AND newest.recovery_config -> 'runner_heartbeat_interval_ms'::text BETWEEN '0' AND '100000000'
             ) told ON true;
$$ LANGUAGE sql STABLE;
