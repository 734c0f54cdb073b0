"""A created schema is the documented one: column by column, constraint by constraint, index by index."""

from __future__ import annotations

from typing import TYPE_CHECKING

import asyncpg
import pytest

from horsies.store.schema import TABLES

if TYPE_CHECKING:
    from collections.abc import Iterable

# name | type | ! for NOT NULL | default
CONTRACT = {
    "horsies_tasks": """
        id                      | character varying(36)    | ! |
        task_name               | character varying(255)   | ! |
        queue_name              | character varying(100)   | ! |
        priority                | integer                  | ! | 100
        args                    | text                     |   |
        kwargs                  | text                     |   |
        status                  | character varying(9)     | ! | 'PENDING'::character varying
        sent_at                 | timestamp with time zone |   |
        enqueued_at             | timestamp with time zone | ! | now()
        is_workflow_task        | boolean                  | ! | false
        claimed_at              | timestamp with time zone |   |
        started_at              | timestamp with time zone |   |
        completed_at            | timestamp with time zone |   |
        failed_at               | timestamp with time zone |   |
        result                  | text                     |   |
        failed_reason           | text                     |   |
        error_code              | text                     |   |
        claimed                 | boolean                  | ! | false
        claimed_by_worker_id    | character varying(255)   |   |
        good_until              | timestamp with time zone |   |
        retry_count             | integer                  | ! | 0
        max_retries             | integer                  | ! | 0
        next_retry_at           | timestamp with time zone |   |
        task_options            | text                     |   |
        worker_pid              | integer                  |   |
        worker_hostname         | character varying(255)   |   |
        worker_process_name     | character varying(255)   |   |
        claim_expires_at        | timestamp with time zone |   |
        finalizing_at           | timestamp with time zone |   |
        finalizing_by_worker_id | text                     |   |
        enqueue_sha             | character varying(64)    | ! | 'legacy-pre-sha'::character varying
        created_at              | timestamp with time zone | ! | now()
        updated_at              | timestamp with time zone | ! | now()
        unique_key              | character varying(255)   |   |
        rerun_of                | character varying(36)    |   |
        workflow_paused_at      | timestamp with time zone |   |
        uncounted_claim_at      | timestamp with time zone |   |
    """,
    "horsies_task_attempts": """
        id                  | bigint                   | ! | nextval('horsies_task_attempts_id_seq'::regclass)
        task_id             | character varying(36)    | ! |
        attempt             | integer                  | ! |
        outcome             | character varying(32)    | ! |
        will_retry          | boolean                  | ! | false
        started_at          | timestamp with time zone | ! |
        finished_at         | timestamp with time zone | ! |
        error_code          | text                     |   |
        error_message       | text                     |   |
        failed_reason       | text                     |   |
        worker_id           | character varying(255)   |   |
        worker_hostname     | character varying(255)   |   |
        worker_pid          | integer                  |   |
        worker_process_name | character varying(255)   |   |
        output              | text                     |   |
        created_at          | timestamp with time zone | ! | now()
    """,
    "horsies_heartbeats": """
        id        | bigint                   | ! | nextval('horsies_heartbeats_id_seq'::regclass)
        task_id   | character varying(36)    | ! |
        sender_id | character varying(255)   | ! |
        role      | character varying(20)    | ! |
        sent_at   | timestamp with time zone | ! | now()
        hostname  | character varying(255)   |   |
        pid       | integer                  |   |
    """,
    "horsies_worker_states": """
        id                    | bigint                   | ! | nextval('horsies_worker_states_id_seq'::regclass)
        worker_id             | character varying(255)   | ! |
        snapshot_at           | timestamp with time zone | ! | now()
        hostname              | character varying(255)   | ! |
        pid                   | integer                  | ! |
        processes             | integer                  | ! |
        max_claim_batch       | integer                  | ! |
        max_claim_per_worker  | integer                  | ! |
        cluster_wide_cap      | integer                  |   |
        queues                | character varying[]      | ! |
        queue_priorities      | jsonb                    |   |
        queue_max_concurrency | jsonb                    |   |
        recovery_config       | jsonb                    |   |
        tasks_running         | integer                  | ! | 0
        tasks_claimed         | integer                  | ! | 0
        memory_usage_mb       | double precision         |   |
        children_memory_mb    | double precision         |   |
        memory_percent        | double precision         |   |
        cpu_percent           | double precision         |   |
        worker_started_at     | timestamp with time zone | ! |
        task_names            | text[]                   |   |
        horsies_version       | text                     |   |
        draining              | boolean                  |   |
        app_version           | text                     |   |
        container_memory_mb   | double precision         |   |
        container_limit_mb    | double precision         |   |
        largest_child_mb      | double precision         |   |
        largest_child_pid     | integer                  |   |
        child_limit_mb        | double precision         |   |
    """,
    "horsies_schedule_state": """
        schedule_name | character varying(255)   | ! |
        last_run_at   | timestamp with time zone |   |
        next_run_at   | timestamp with time zone |   |
        last_task_id  | character varying(36)    |   |
        run_count     | integer                  | ! | 0
        config_hash   | character varying(64)    |   |
        updated_at    | timestamp with time zone | ! | now()
    """,
    "horsies_workflows": """
        id                 | character varying(36)    | ! |
        name               | character varying(255)   | ! |
        status             | character varying(50)    | ! |
        on_error           | character varying(50)    | ! | 'fail'::character varying
        output_task_index  | integer                  |   |
        success_policy     | jsonb                    |   |
        result             | text                     |   |
        error              | text                     |   |
        definition_key     | character varying(255)   |   |
        parent_workflow_id | character varying(36)    |   |
        parent_task_index  | integer                  |   |
        depth              | integer                  | ! | 0
        root_workflow_id   | character varying(36)    |   |
        sent_at            | timestamp with time zone | ! | now()
        created_at         | timestamp with time zone | ! | now()
        started_at         | timestamp with time zone |   |
        completed_at       | timestamp with time zone |   |
        updated_at         | timestamp with time zone | ! | now()
    """,
    "horsies_workflow_tasks": """
        id                   | character varying(36)    | ! |
        workflow_id          | character varying(36)    | ! |
        task_index           | integer                  | ! |
        node_id              | character varying(128)   |   |
        task_name            | character varying(255)   | ! |
        task_args            | text                     |   |
        task_kwargs          | text                     |   |
        queue_name           | character varying(100)   | ! | 'default'::character varying
        priority             | integer                  | ! | 100
        dependencies         | integer[]                | ! | '{}'::integer[]
        args_from            | jsonb                    |   |
        workflow_ctx_from    | character varying(128)[] |   |
        allow_failed_deps    | boolean                  | ! | false
        join_type            | character varying(10)    | ! | 'all'::character varying
        min_success          | integer                  |   |
        task_options         | text                     |   |
        status               | character varying(50)    | ! |
        task_id              | character varying(36)    |   |
        is_subworkflow       | boolean                  | ! | false
        sub_workflow_id      | character varying(36)    |   |
        sub_workflow_name    | character varying(255)   |   |
        sub_definition_key   | character varying(255)   |   |
        sub_workflow_summary | text                     |   |
        result               | text                     |   |
        error                | text                     |   |
        created_at           | timestamp with time zone | ! | now()
        started_at           | timestamp with time zone |   |
        completed_at         | timestamp with time zone |   |
    """,
    "horsies_operator_actions": """
        id           | bigint                   | ! |
        acted_at     | timestamp with time zone | ! | now()
        operation_id | uuid                     | ! |
        verb         | text                     | ! |
        target_kind  | text                     | ! |
        target_id    | text                     | ! |
        outcome      | text                     | ! |
        detail       | text                     |   |
        before_state | jsonb                    |   |
        after_state  | jsonb                    |   |
        os_user      | text                     |   |
        os_host      | text                     |   |
        db_role      | text                     | ! | SESSION_USER
        reason       | text                     |   |
        filter       | text                     |   |
        undoes       | bigint                   |   |
    """,
    "horsies_queue_state": """
        queue_name | character varying(100)   | ! |
        paused_at  | timestamp with time zone |   |
        paused_by  | text                     |   |
        reason     | text                     |   |
        updated_at | timestamp with time zone | ! | now()
    """,
    "horsies_caps": """
        queue_name | character varying(100)   | ! |
    """,
    "horsies_worker_orders": """
        worker_id      | character varying(255)   | ! |
        draining_since | timestamp with time zone |   |
        ordered_by     | text                     |   |
        reason         | text                     |   |
        updated_at     | timestamp with time zone | ! | now()
    """,
    "horsies_sweep_state": """
        sweep       | text                     | ! |
        ran_at      | timestamp with time zone | ! |
        worker_id   | character varying(255)   |   |
        interval_ms | integer                  |   |
        report      | jsonb                    |   |
    """,
    "horsies_pulse": """
        only_row  | boolean                  | ! | true
        beaten_at | timestamp with time zone | ! |
        gaps      | tstzmultirange           | ! | '{}'::tstzmultirange
        asked_at  | timestamp with time zone |   |
        least_gap | interval                 |   |
        least_at  | timestamp with time zone |   |
        may_pause | interval                 |   |
    """,
    "horsies_outages": """
        id       | bigint                   | ! |
        began_at | timestamp with time zone | ! |
        ended_at | timestamp with time zone | ! | now()
    """,
    "horsies_sweeps": """
        id        | bigint                   | ! |
        swept_at  | timestamp with time zone | ! | now()
        worker_id | character varying(255)   |   |
        expired   | integer                  | ! |
        repairs   | integer                  | ! |
        workflows | integer                  | ! |
    """,
    "horsies_worker_losses": """
        id        | bigint                   | ! |
        worker_id | character varying(255)   | ! |
        taken_at  | timestamp with time zone | ! | now()
        failed    | text[]                   | ! | '{}'::text[]
        retried   | text[]                   | ! | '{}'::text[]
        returned  | text[]                   | ! | '{}'::text[]
    """,
    "horsies_looks": """
        look_id     | uuid                     | ! |
        task_id     | character varying(36)    | ! |
        worker_id   | character varying(255)   | ! |
        claimed_at  | timestamp with time zone | ! |
        kind        | text                     | ! |
        with_locals | boolean                  | ! | false
        after_line  | bigint                   | ! | 0
        asked_at    | timestamp with time zone | ! | now()
        answered_at | timestamp with time zone |   |
        answer      | jsonb                    |   |
    """,
    "horsies_progress": """
        task_id     | character varying(36)    | ! |
        started_at  | timestamp with time zone | ! |
        done        | double precision         | ! |
        total       | double precision         |   |
        unit        | character varying(24)    |   |
        rate        | double precision         |   |
        gap_s       | double precision         |   |
        reported_at | timestamp with time zone | ! |
    """,
    "horsies_duplicate_sends": """
        task_id | character varying(36)    | ! |
        backend | integer                  | ! |
        sends   | bigint                   | ! |
        last_at | timestamp with time zone | ! |
    """,
    "horsies_schedules": """
        schedule_name | character varying(255)   | ! |
        config_hash   | character varying(64)    | ! |
        definition    | jsonb                    | ! |
        registered_at | timestamp with time zone | ! | now()
        paused_at     | timestamp with time zone |   |
        paused_by     | text                     |   |
        reason        | text                     |   |
        skip_slot     | timestamp with time zone |   |
        skipped_by    | text                     |   |
    """,
    "horsies_schedule_runs": """
        schedule_name | character varying(255)   | ! |
        slot          | timestamp with time zone | ! |
        sent_at       | timestamp with time zone | ! | now()
        task_id       | character varying(36)    |   |
        workflow_id   | character varying(36)    |   |
        ordered_by    | text                     |   |
    """,
    "horsies_schedulers": """
        scheduler_id    | character varying(255)   | ! |
        hostname        | character varying(255)   | ! |
        pid             | integer                  | ! |
        schedules       | text[]                   | ! |
        horsies_version | text                     | ! |
        started_at      | timestamp with time zone | ! | now()
        seen_at         | timestamp with time zone | ! | now()
        lost_after_s    | double precision         |   |
    """,
    "horsies_console_schema": """
        version    | integer                  | ! |
        name       | text                     | ! |
        applied_at | timestamp with time zone | ! | now()
    """,
}

YEARS = "to_timestamp((946684800)::double precision)", "to_timestamp(('221845392000'::bigint)::double precision)"
PULSE_TIMES = (
    f"CHECK ((((beaten_at >= {YEARS[0]}) AND (beaten_at <= {YEARS[1]}))"
    f" AND ((asked_at >= {YEARS[0]}) AND (asked_at <= {YEARS[1]})) AND (gaps <@ tstzrange({YEARS[0]}, {YEARS[1]}))))"
)

CONSTRAINTS = {
    "horsies_tasks_pkey": "PRIMARY KEY (id)",
    "horsies_task_attempts_pkey": "PRIMARY KEY (id)",
    "horsies_task_attempts_task_id_fkey": "FOREIGN KEY (task_id) REFERENCES horsies_tasks(id) ON DELETE CASCADE",
    "ck_horsies_task_attempts_outcome": (
        "CHECK (((outcome)::text = ANY ((ARRAY['COMPLETED'::character varying, 'FAILED'::character varying,"
        " 'WORKER_FAILURE'::character varying])::text[])))"
    ),
    "uq_horsies_task_attempts_task_attempt": "UNIQUE (task_id, attempt)",
    "horsies_heartbeats_pkey": "PRIMARY KEY (id)",
    "horsies_worker_states_pkey": "PRIMARY KEY (id)",
    "horsies_schedule_state_pkey": "PRIMARY KEY (schedule_name)",
    "horsies_looks_pkey": "PRIMARY KEY (look_id)",
    "ck_horsies_looks_kind": "CHECK ((kind = ANY (ARRAY['stack'::text, 'output'::text])))",
    "horsies_progress_pkey": "PRIMARY KEY (task_id, started_at)",
    "horsies_duplicate_sends_pkey": "PRIMARY KEY (task_id, backend)",
    "horsies_schedules_pkey": "PRIMARY KEY (schedule_name)",
    "horsies_schedule_runs_pkey": "PRIMARY KEY (schedule_name, slot)",
    "horsies_schedulers_pkey": "PRIMARY KEY (scheduler_id)",
    "horsies_workflows_pkey": "PRIMARY KEY (id)",
    "horsies_workflows_parent_workflow_id_fkey": (
        "FOREIGN KEY (parent_workflow_id) REFERENCES horsies_workflows(id) ON DELETE CASCADE"
    ),
    "horsies_workflow_tasks_pkey": "PRIMARY KEY (id)",
    "uq_horsies_workflow_task_index": "UNIQUE (workflow_id, task_index)",
    "horsies_workflow_tasks_workflow_id_fkey": (
        "FOREIGN KEY (workflow_id) REFERENCES horsies_workflows(id) ON DELETE CASCADE"
    ),
    "horsies_workflow_tasks_sub_workflow_id_fkey": (
        "FOREIGN KEY (sub_workflow_id) REFERENCES horsies_workflows(id) ON DELETE SET NULL"
    ),
    "horsies_operator_actions_pkey": "PRIMARY KEY (id)",
    "horsies_operator_actions_undoes_fkey": (
        "FOREIGN KEY (undoes) REFERENCES horsies_operator_actions(id) ON DELETE SET NULL"
    ),
    "ck_horsies_operator_actions_target_kind": (
        "CHECK ((target_kind = ANY (ARRAY['task'::text, 'workflow'::text, 'node'::text, 'worker'::text,"
        " 'queue'::text, 'schedule'::text, 'session'::text])))"
    ),
    "ck_horsies_operator_actions_outcome": "CHECK ((outcome = ANY (ARRAY['applied'::text, 'refused'::text])))",
    "horsies_queue_state_pkey": "PRIMARY KEY (queue_name)",
    "horsies_caps_pkey": "PRIMARY KEY (queue_name)",
    "horsies_worker_orders_pkey": "PRIMARY KEY (worker_id)",
    "horsies_worker_losses_pkey": "PRIMARY KEY (id)",
    "horsies_sweep_state_pkey": "PRIMARY KEY (sweep)",
    "horsies_sweeps_pkey": "PRIMARY KEY (id)",
    "horsies_outages_pkey": "PRIMARY KEY (id)",
    "ck_horsies_outages_times": (
        f"CHECK (((began_at >= {YEARS[0]}) AND (began_at <= ended_at) AND (ended_at <= {YEARS[1]})))"
    ),
    "horsies_pulse_pkey": "PRIMARY KEY (only_row)",
    "ck_horsies_pulse_only_row": "CHECK (only_row)",
    "ck_horsies_pulse_times": PULSE_TIMES,
    "horsies_console_schema_pkey": "PRIMARY KEY (version)",
}

INDEXES = {
    "horsies_tasks": {
        "ix_horsies_tasks_ready",
        "ix_horsies_tasks_ready_by_name",
        "ix_horsies_tasks_ready_until",
        "ix_horsies_tasks_crashed",
        "ix_horsies_tasks_in_flight",
        "ix_horsies_tasks_claimed_by",
        "ix_horsies_tasks_finished",
        "ix_horsies_tasks_finished_by_name",
        "ix_horsies_tasks_unsuccessful",
        "ix_horsies_tasks_expiring",
        "ix_horsies_tasks_retrying",
        "idx_horsies_tasks_error_code",
        "uq_horsies_tasks_key_and_name",
        "ix_horsies_tasks_created",
        "ix_horsies_tasks_unsuccessful_created",
        "ix_horsies_tasks_rerun_of",
        "ix_horsies_tasks_untimed",
    },
    "horsies_task_attempts": {
        "uq_horsies_task_attempts_task_attempt",
        "idx_horsies_task_attempts_error_code",
        "idx_horsies_task_attempts_finished_at_desc",
    },
    "horsies_heartbeats": {"idx_horsies_heartbeats_task_role_sent"},
    "horsies_worker_states": {
        "ix_horsies_worker_states_worker_latest",
        "ix_horsies_worker_states_worker_id",
        "ix_horsies_worker_states_snapshot_at",
        "ix_horsies_worker_states_tasks_running",
        "ix_horsies_worker_states_tasks_claimed",
    },
    "horsies_schedule_state": {"ix_horsies_schedule_state_next_run_at"},
    "horsies_looks": {"ix_horsies_looks_worker"},
    "horsies_schedule_runs": {"ix_horsies_schedule_runs_sent"},
    "horsies_workflows": {
        "ix_horsies_workflows_status",
        "ix_horsies_workflows_parent_workflow_id",
        "ix_horsies_workflows_root_workflow_id",
        "ix_horsies_workflows_updated_at",
        "ix_horsies_workflows_finished",
        "ix_horsies_workflows_created",
        "ix_horsies_workflows_live_created",
        "ix_horsies_workflows_unsuccessful_created",
    },
    "horsies_workflow_tasks": {
        "uq_horsies_workflow_task_index",
        "ix_horsies_workflow_tasks_open",
        "ix_horsies_workflow_tasks_childless",
        "ix_horsies_workflow_tasks_status",
        "ix_horsies_workflow_tasks_task_id",
        "ix_horsies_workflow_tasks_sub_workflow_id",
    },
    "horsies_operator_actions": {
        "ix_horsies_operator_actions_latest",
        "ix_horsies_operator_actions_target",
        "ix_horsies_operator_actions_operation",
        "ix_horsies_operator_actions_undoes",
    },
    "horsies_queue_state": set(),
    "horsies_caps": set(),
    "horsies_worker_orders": set(),
    "horsies_sweep_state": set(),
    "horsies_pulse": set(),
    "horsies_outages": {"ix_horsies_outages_latest"},
    "horsies_sweeps": {"ix_horsies_sweeps_latest"},
    "horsies_worker_losses": {"ix_horsies_worker_losses_latest"},
    "horsies_console_schema": set(),
}

TRIGGERS = {
    ("horsies_tasks", "horsies_task_notify_trigger", "horsies_notify_task_changes"),
    ("horsies_tasks", "horsies_task_status_notify_trigger", "horsies_notify_task_status"),
    ("horsies_worker_states", "horsies_worker_state_notify_trigger", "horsies_notify_worker_state"),
    ("horsies_workflows", "horsies_workflow_notify_trigger", "horsies_notify_workflow_changes"),
    ("horsies_workflows", "horsies_workflow_status_notify_trigger", "horsies_notify_workflow_status"),
    ("horsies_tasks", "horsies_task_return_trigger", "horsies_mark_returned_task"),
    ("horsies_workflows", "horsies_workflow_pause_trigger", "horsies_mark_paused_tasks"),
    ("horsies_workflows", "horsies_workflow_delete_trigger", "horsies_mark_paused_tasks"),
    ("horsies_operator_actions", "horsies_operator_action_sign_trigger", "horsies_sign_operator_action"),
}

COLUMNS_OF = """
    SELECT attname AS name, format_type(atttypid, atttypmod) AS type, attnotnull AS needed,
           COALESCE(pg_get_expr(adbin, adrelid), '') AS "default"
      FROM pg_attribute LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
     WHERE attrelid = $1::text::regclass AND attnum > 0 AND NOT attisdropped
"""


def lines(table: str) -> Iterable[tuple[str, str, bool, str]]:
    for line in table.strip().splitlines():
        name, kind, needed, default = (part.strip() for part in line.split("|"))
        yield name, kind, needed == "!", default


async def test_each_column_has_its_type_nullability_and_default(connection: asyncpg.Connection) -> None:
    for table, columns in CONTRACT.items():
        rows = await connection.fetch(COLUMNS_OF, table)
        assert {tuple(row) for row in rows} == set(lines(columns)), table


async def test_there_are_no_other_tables(connection: asyncpg.Connection) -> None:
    rows = await connection.fetch("SELECT tablename FROM pg_tables WHERE schemaname = current_schema()")
    assert {row["tablename"] for row in rows} == set(CONTRACT)


async def test_constraints_are_the_documented_ones(connection: asyncpg.Connection) -> None:
    rows = await connection.fetch(
        "SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint"
        " WHERE connamespace = current_schema()::regnamespace AND contype <> 'n'"
    )
    assert {row[0]: row[1] for row in rows} == CONSTRAINTS


async def test_each_table_has_its_indexes_and_no_more(connection: asyncpg.Connection) -> None:
    for table, names in INDEXES.items():
        rows = await connection.fetch("SELECT indexname FROM pg_indexes WHERE tablename = $1", table)
        assert {row["indexname"] for row in rows} == names | {f"{table}_pkey"}, table


async def test_what_a_lease_renewal_writes_is_in_no_index(connection: asyncpg.Connection) -> None:
    rows = await connection.fetch("SELECT indexdef FROM pg_indexes WHERE tablename = 'horsies_tasks'")
    for column in ("claim_expires_at", "finalizing_at", "finalizing_by_worker_id", "updated_at"):
        assert not [row["indexdef"] for row in rows if column in row["indexdef"]]


async def test_a_lease_renewal_is_heap_only(connection: asyncpg.Connection) -> None:
    await connection.execute(
        "INSERT INTO horsies_tasks (id, task_name, queue_name, status, claimed) VALUES ('a', 'a', 'a', 'CLAIMED', true)"
    )
    await connection.execute("UPDATE horsies_tasks SET claim_expires_at = now(), updated_at = now()")
    await connection.execute("UPDATE horsies_tasks SET finalizing_at = now(), finalizing_by_worker_id = 'w'")
    await connection.execute("SELECT pg_stat_force_next_flush()")
    counted = await connection.fetchrow(
        "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = 'horsies_tasks'"
    )
    assert tuple(counted) == (2, 2)


async def test_triggers_are_the_documented_ones(connection: asyncpg.Connection) -> None:
    rows = await connection.fetch(
        "SELECT relname, tgname, proname FROM pg_trigger JOIN pg_class ON pg_class.oid = tgrelid"
        " JOIN pg_proc ON pg_proc.oid = tgfoid WHERE NOT tgisinternal"
    )
    assert {tuple(row) for row in rows} == TRIGGERS


async def test_a_row_by_hand_needs_no_more_than_what_it_is_about(connection: asyncpg.Connection) -> None:
    await connection.execute(
        "INSERT INTO horsies_tasks (id, task_name, queue_name) VALUES ('t', 'demo.add', 'default')"
    )
    await connection.execute("INSERT INTO horsies_workflows (id, name, status) VALUES ('w', 'ship', 'RUNNING')")
    await connection.execute(
        "INSERT INTO horsies_workflow_tasks (id, workflow_id, task_index, task_name, status)"
        " VALUES ('n', 'w', 0, 'demo.add', 'READY')"
    )
    await connection.execute("INSERT INTO horsies_heartbeats (task_id, sender_id, role) VALUES ('t', 'w', 'claimer')")
    await connection.execute("INSERT INTO horsies_schedule_state (schedule_name) VALUES ('nightly')")
    task = await connection.fetchrow("SELECT status, priority, enqueued_at <= now() AS due FROM horsies_tasks")
    assert tuple(task) == ("PENDING", 100, True)


@pytest.mark.parametrize(
    ("kind", "outcome"), [("task", "perhaps"), ("database", "applied")], ids=["outcome", "target kind"]
)
async def test_an_action_of_unknown_kind_is_not_recorded(
    connection: asyncpg.Connection, kind: str, outcome: str
) -> None:
    with pytest.raises(asyncpg.CheckViolationError):
        await connection.execute(
            "INSERT INTO horsies_operator_actions (operation_id, verb, target_kind, target_id, outcome)"
            " VALUES (gen_random_uuid(), 'requeue', $1, 't', $2)",
            kind,
            outcome,
        )


async def test_the_list_of_contents_is_what_the_migrations_make(connection: asyncpg.Connection) -> None:
    rows = await connection.fetch(
        "SELECT table_name, array_agg(column_name::text) FROM information_schema.columns"
        " WHERE table_schema = 'public' AND table_name <> 'horsies_console_schema' GROUP BY table_name"
    )
    assert {row[0]: frozenset(row[1]) for row in rows} == {name: table.columns for name, table in TABLES.items()}
    triggers = await connection.fetch("SELECT tgrelid::regclass::text, tgname FROM pg_trigger WHERE NOT tgisinternal")
    listed = {(name, trigger) for name, table in TABLES.items() for trigger in table.triggers}
    assert {tuple(row) for row in triggers} == listed
    indexes = await connection.fetch("SELECT tablename, indexname FROM pg_indexes WHERE schemaname = 'public'")
    needed = {(name, index) for name, table in TABLES.items() for index in table.indexes}
    assert needed <= {tuple(row) for row in indexes}
