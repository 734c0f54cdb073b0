"""The triggers send the documented payloads on the documented channels, and nothing else."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import asyncpg
import pytest

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
