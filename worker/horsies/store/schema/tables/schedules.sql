-- schedules, their slots that were used, and the schedulers that serve them; a part of the schema, run by upgrade.py

CREATE TABLE IF NOT EXISTS horsies_schedule_state (
    schedule_name varchar(255) PRIMARY KEY,
    last_run_at   timestamptz,
    next_run_at   timestamptz,
    last_task_id  varchar(36),
    run_count     integer      NOT NULL DEFAULT 0,
    config_hash   varchar(64),
    updated_at    timestamptz  NOT NULL DEFAULT now()
);

CREATE INDEX IF NOT EXISTS ix_horsies_schedule_state_next_run_at
    ON horsies_schedule_state (next_run_at);

-- What a scheduler has of each schedule, for those who have no application: the console, the commands, and operators'
-- verbs. `definition` has the pattern, the zone and what a run sends. Upstream's schedulers delete rows of
-- horsies_schedule_state that are not in their own configuration, so what an operator ordered is kept here.
CREATE TABLE IF NOT EXISTS horsies_schedules (
    schedule_name varchar(255) PRIMARY KEY,
    config_hash   varchar(64)  NOT NULL,
    definition    jsonb        NOT NULL,
    registered_at timestamptz  NOT NULL DEFAULT now(),
    paused_at     timestamptz,
    paused_by     text,
    reason        text,
    skip_slot     timestamptz,
    skipped_by    text
);

-- One row per slot that was used, or skipped, and per run that an operator ordered. The task or workflow may have been
-- pruned since.
CREATE TABLE IF NOT EXISTS horsies_schedule_runs (
    schedule_name varchar(255) NOT NULL,
    slot          timestamptz  NOT NULL,
    sent_at       timestamptz  NOT NULL DEFAULT now(),
    task_id       varchar(36),
    workflow_id   varchar(36),
    ordered_by    text,
    CONSTRAINT horsies_schedule_runs_pkey PRIMARY KEY (schedule_name, slot)
);
CREATE INDEX IF NOT EXISTS ix_horsies_schedule_runs_sent ON horsies_schedule_runs (sent_at);

-- The schedulers that run, or ended without a word. A row is renewed every 5 s and deleted by a clean stop.
CREATE TABLE IF NOT EXISTS horsies_schedulers (
    scheduler_id    varchar(255) PRIMARY KEY,
    hostname        varchar(255) NOT NULL,
    pid             integer      NOT NULL,
    schedules       text[]       NOT NULL,
    horsies_version text         NOT NULL,
    started_at      timestamptz  NOT NULL DEFAULT now(),
    seen_at         timestamptz  NOT NULL DEFAULT now(),
    lost_after_s    double precision
);
