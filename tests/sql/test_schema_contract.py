"""A created schema has all that upstream documents and `TABLES` lists; its triggers send what is documented."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path

import asyncpg
import pytest

from horsies.store.schema import TABLES

UPSTREAM = Path(__file__).with_name("upstream_shape.sql")
# A time of upstream without a zone is one with a zone here, and an id of four bytes has eight.
COLUMNS = """
SELECT attrelid::regclass::text, attname, replace(format_type(atttypid, atttypmod), 'without time', 'with time'),
       attnotnull
  FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid
 WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' AND attnum > 0 AND NOT attisdropped
"""
CONSTRAINTS = """
SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint
 WHERE connamespace = 'public'::regnamespace AND contype <> 'n'
"""
IDS = {(table, "id", "integer", True) for table in ("horsies_heartbeats", "horsies_worker_states")}


async def test_each_column_and_constraint_of_upstream_is_here(
    connection: asyncpg.Connection, empty_database: str
) -> None:
    upstream = await asyncpg.connect(empty_database)
    await upstream.execute(UPSTREAM.read_text("utf-8"))
    for query, wider in ((COLUMNS, IDS), (CONSTRAINTS, set())):
        theirs, ours = [{tuple(row) for row in await each.fetch(query)} for each in (upstream, connection)]
        assert theirs - ours == wider
    await upstream.close()


async def test_what_a_lease_renewal_writes_is_in_no_index(connection: asyncpg.Connection) -> None:
    rows = await connection.fetch("SELECT indexdef FROM pg_indexes WHERE tablename = 'horsies_tasks'")
    for column in ("claim_expires_at", "finalizing_at", "finalizing_by_worker_id", "updated_at"):
        assert not [row["indexdef"] for row in rows if column in row["indexdef"]]


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


CHANNELS = (
    "task_new",
    "task_queue_mail",
    "task_done",
    "horsies_task_status",
    "horsies_worker_state",
    "workflow_done",
    "horsies_workflow_status",
)

INSERT_TASK = "INSERT INTO horsies_tasks (id, task_name, queue_name, status) VALUES ($1, 'demo.add', 'mail', $2)"
INSERT_WORKFLOW = "INSERT INTO horsies_workflows (id, name, status) VALUES ('wf', 'ship', $1)"


@dataclass
class Listener:
    connection: asyncpg.Connection
    writer: asyncpg.Connection
    heard: list[tuple[str, str]] = field(default_factory=list)
    silence: asyncio.Event = field(default_factory=asyncio.Event)

    def hear(self, _connection: object, _pid: int, channel: str, payload: str) -> None:
        if channel == "nothing_more":
            self.silence.set()
        else:
            self.heard.append((channel, payload))

    async def after(self, statement: str, *args: object) -> list[tuple[str, str]]:
        """The notifications of this statement; they arrive in the order of their commits."""
        self.heard.clear()
        self.silence.clear()
        await self.writer.execute(statement, *args)
        await self.writer.execute("NOTIFY nothing_more")
        await asyncio.wait_for(self.silence.wait(), 10)
        return sorted(self.heard)


@pytest.fixture
async def listener(database: str, connection: asyncpg.Connection):
    listening = await asyncpg.connect(database)
    listener = Listener(listening, connection)
    for channel in (*CHANNELS, "nothing_more"):
        await listening.add_listener(channel, listener.hear)
    yield listener
    await listening.close()


async def test_a_pending_task_is_announced_to_all_and_to_its_queue(listener: Listener) -> None:
    assert await listener.after(INSERT_TASK, "t", "PENDING") == [
        ("horsies_task_status", "t"),
        ("task_new", "t"),
        ("task_queue_mail", "t"),
    ]


async def test_a_task_inserted_in_another_state_is_no_work(listener: Listener) -> None:
    assert await listener.after(INSERT_TASK, "t", "COMPLETED") == [("horsies_task_status", "t")]


async def test_a_terminal_status_is_announced_as_done(listener: Listener) -> None:
    await listener.after(INSERT_TASK, "t", "RUNNING")
    for status in ("COMPLETED", "FAILED", "CANCELLED", "EXPIRED"):
        heard = await listener.after("UPDATE horsies_tasks SET status = $1", status)
        assert heard == [("horsies_task_status", "t"), ("task_done", "t")]


async def test_a_step_that_is_no_end_notifies_only_those_who_watch_the_state(listener: Listener) -> None:
    await listener.after(INSERT_TASK, "t", "PENDING")
    for status in ("CLAIMED", "RUNNING", "PENDING"):
        assert await listener.after("UPDATE horsies_tasks SET status = $1", status) == [("horsies_task_status", "t")]


async def test_an_update_that_keeps_the_status_is_silent(listener: Listener) -> None:
    await listener.after(INSERT_TASK, "t", "CLAIMED")
    assert await listener.after("UPDATE horsies_tasks SET status = 'CLAIMED', claim_expires_at = now()") == []


async def test_a_worker_snapshot_carries_the_worker_id(listener: Listener) -> None:
    heard = await listener.after(
        "INSERT INTO horsies_worker_states (worker_id, hostname, pid, processes, max_claim_batch, max_claim_per_worker,"
        " queues, worker_started_at) VALUES ('w-1', 'host', 1, 2, 2, 2, '{mail}', now())"
    )
    assert heard == [("horsies_worker_state", "w-1")]
    assert await listener.after("UPDATE horsies_worker_states SET pid = 2") == [("horsies_worker_state", "w-1")]


async def test_a_workflow_that_ends_or_pauses_is_announced_as_done(listener: Listener) -> None:
    assert await listener.after(INSERT_WORKFLOW, "RUNNING") == [("horsies_workflow_status", "wf")]
    for status in ("PAUSED", "COMPLETED", "FAILED", "CANCELLED"):
        heard = await listener.after("UPDATE horsies_workflows SET status = $1", status)
        assert heard == [("horsies_workflow_status", "wf"), ("workflow_done", "wf")]


async def test_a_resumed_workflow_is_not_done(listener: Listener) -> None:
    await listener.after(INSERT_WORKFLOW, "PAUSED")
    heard = await listener.after("UPDATE horsies_workflows SET status = 'RUNNING'")
    assert heard == [("horsies_workflow_status", "wf")]
    assert await listener.after("UPDATE horsies_workflows SET error = 'x'") == []


INSERT_INTO_QUEUE = "INSERT INTO horsies_tasks (id, task_name, queue_name) VALUES (gen_random_uuid(), 'demo.add', $1)"


async def test_a_queue_name_of_52_bytes_fits_a_channel_and_one_of_53_fails(connection: asyncpg.Connection) -> None:
    for name in ("q" * 52, "ü" * 26):
        assert await connection.execute(INSERT_INTO_QUEUE, name) == "INSERT 0 1"
        with pytest.raises(asyncpg.PostgresError, match="channel name too long"):
            await connection.execute(INSERT_INTO_QUEUE, name + "q")
