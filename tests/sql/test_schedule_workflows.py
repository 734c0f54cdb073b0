"""Schedules that start workflows, in the database: with the move of the schedule, once, or not at all."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from typing import Any

import asyncpg
import pytest
from operation_steps import OPS
from schedule_slot_steps import SECOND, application, due_now, every, overdue, plan, state
from until import until

from horsies import IntervalSchedule, ScheduleConfig, TaskNode, WorkflowDefinition, WorkflowSchedule
from horsies.lifecycle.scheduling import OrderedRun, due, ordered_runs, start, start_ordered
from horsies.operations.pipeline import apply, preview
from horsies.operations.selection import Selection
from horsies.operations.verbs import VERBS
from horsies.run import threads
from horsies.run.events import Events
from horsies.run.scheduler import ScheduledWorkflows, ScheduleFailures
from horsies.task.scheduled import ScheduledWorkflow, schedules_of


class Nightly(WorkflowDefinition[int]):
    name = "nightly"
    definition_key = "tests.sql.nightly"

    @classmethod
    def build_with(cls, app: Any, *, day: int) -> Any:
        node = TaskNode(app.tasks["report"], kwargs={"day": day})
        return app.workflow(cls.name, [node], definition_key=cls.definition_key)


def nightly(**more: Any) -> ScheduledWorkflow:
    pattern = IntervalSchedule(seconds=10)
    schedule = WorkflowSchedule(name="a", workflow=Nightly, params={"day": 3}, pattern=pattern, **more)
    app = application(ScheduleConfig(schedules=[schedule]))
    (one,) = schedules_of(app, app.tasks)
    assert isinstance(one, ScheduledWorkflow)
    return one


async def workflows(conn: asyncpg.Connection) -> list[asyncpg.Record]:
    rows: list[asyncpg.Record] = await conn.fetch(
        "SELECT id, name, status, sent_at FROM horsies_workflows ORDER BY sent_at"
    )
    return rows


async def order(conn: asyncpg.Connection) -> OrderedRun:
    await apply(conn, await preview(conn, VERBS["schedule", "run-now"], Selection.of_ids(["a"])), OPS, None)
    (one,) = await ordered_runs(conn, ["a"])
    return one


async def test_the_slots_that_are_due_start_their_workflows_and_the_schedule_moves_on(
    connection: asyncpg.Connection,
) -> None:
    one = nightly(catch_up_missed=True)
    await plan(connection, {"a": one})
    slot = await overdue(connection, 15)
    run = await due_now(connection, one)
    assert await start(connection, run, one.plan())
    found = await workflows(connection)
    assert [tuple(row) for row in found] == [(use.workflow_id, "nightly", "RUNNING", use.slot) for use in run.uses]
    assert await connection.fetchval("SELECT count(*) FROM horsies_tasks WHERE is_workflow_task") == 2
    row = await state(connection)
    assert (row["next_run_at"], row["run_count"], row["last_task_id"]) == (slot + 20 * SECOND, 1, None)
    used = await connection.fetch("SELECT workflow_id, task_id FROM horsies_schedule_runs ORDER BY slot")
    assert used == [(row["id"], None) for row in found]
    assert not await start(connection, run, one.plan())
    assert len(await workflows(connection)) == 2


async def test_of_many_schedulers_at_once_one_starts_the_workflow(
    database: str, connection: asyncpg.Connection
) -> None:
    one = nightly()
    await plan(connection, {"a": one})
    await overdue(connection, 1)
    rivals = [await asyncpg.connect(database) for _ in range(5)]
    run = await due_now(connection, one)
    answers = await asyncio.gather(*(start(rival, run, one.plan()) for rival in rivals))
    for rival in rivals:
        await rival.close()
    assert sorted(answers) == [False] * 4 + [True]
    assert len(await workflows(connection)) == 1


async def test_a_start_that_the_database_rejects_leaves_the_schedule_where_it_was(
    connection: asyncpg.Connection,
) -> None:
    one = nightly()
    await plan(connection, {"a": one})
    await overdue(connection, 1)
    before = await state(connection)
    with pytest.raises(asyncpg.DataError):
        await start(connection, await due_now(connection, one), replace(one.plan(), name="n" * 300))
    assert await state(connection) == before
    assert await connection.fetchval("SELECT count(*) FROM horsies_schedule_runs") == 0
    assert await start(connection, await due_now(connection, one), one.plan())


async def test_a_scheduler_that_dies_before_its_commit_has_started_nothing_and_another_one_does(
    database: str, connection: asyncpg.Connection
) -> None:
    one = nightly()
    await plan(connection, {"a": one})
    await overdue(connection, 1)
    run = await due_now(connection, one)
    dying = await asyncpg.connect(database)
    transaction = dying.transaction()
    await transaction.start()
    assert await start(dying, run, one.plan())
    assert not await start(connection, run, one.plan()), "it waits for none that is under way"
    pid = dying.get_server_pid()
    dying.terminate()
    await until(connection, f"NOT EXISTS (SELECT FROM pg_stat_activity WHERE pid = {pid})")
    assert await start(connection, run, one.plan())
    assert len(await workflows(connection)) == 1


async def test_a_workflow_that_hangs_while_it_is_built_has_one_thread(
    connection: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(threads, "LONGEST_BUILD_S", 0.05)
    let_go = threading.Event()
    one = nightly()
    monkeypatch.setattr(Nightly, "build_with", lambda *_, **__: let_go.wait(20))
    await plan(connection, {"a": one})
    await overdue(connection, 1)
    events = Events()
    starting = ScheduledWorkflows([one], ScheduleFailures(events), events, wake=lambda: None)
    run = await due_now(connection, one)
    for _ in range(3):
        await starting.start(connection, [run])
    hanging = [thread for thread in threading.enumerate() if thread.name == "horsies build a"]
    assert len(hanging) == 1
    assert "its workflow is not built again: 1 earlier build has not ended" in caplog.text
    let_go.set()
    hanging[0].join(5)
    monkeypatch.undo()
    await starting.start(connection, [run])
    assert len(await workflows(connection)) == 1


async def test_a_skipped_slot_starts_no_workflow_and_a_paused_schedule_none(connection: asyncpg.Connection) -> None:
    one = nightly()
    await plan(connection, {"a": one})
    slot = await overdue(connection, 1)
    await connection.execute("UPDATE horsies_schedules SET skip_slot = $1", slot)
    assert await start(connection, await due_now(connection, one), None)
    slot = await overdue(connection, 1)
    run = await due_now(connection, one)
    await connection.execute("UPDATE horsies_schedules SET paused_at = now()")
    assert not await start(connection, run, one.plan())
    assert await workflows(connection) == []


async def test_a_workflow_that_is_ordered_now_is_started_by_one_scheduler_and_leaves_the_plan_alone(
    connection: asyncpg.Connection, other: asyncpg.Connection
) -> None:
    one = nightly()
    await plan(connection, {"a": one})
    before = await state(connection)
    ordered = await order(connection)
    answers = await asyncio.gather(
        start_ordered(connection, ordered, one.plan()), start_ordered(other, ordered, one.plan())
    )
    assert sorted(answers) == [False, True]
    assert [row["id"] for row in await workflows(connection)] == [ordered.workflow_id]
    assert await ordered_runs(connection, ["a"]) == []
    assert await state(connection) == before
    used = await connection.fetchrow("SELECT workflow_id, ordered_by, sent_at < now() FROM horsies_schedule_runs")
    assert used == (ordered.workflow_id, "ops@bastion", True)


async def test_an_order_that_cannot_be_started_stays_for_another_scheduler(connection: asyncpg.Connection) -> None:
    one = nightly()
    await plan(connection, {"a": one})
    ordered = await order(connection)
    with pytest.raises(asyncpg.DataError):
        await start_ordered(connection, ordered, replace(one.plan(), name="n" * 300))
    assert await ordered_runs(connection, ["a"]) == [ordered]
    assert await ordered_runs(connection, ["b"]) == []


async def test_run_now_says_who_starts_a_workflow_and_that_none_does_now(connection: asyncpg.Connection) -> None:
    one = nightly()
    await plan(connection, {"a": one})
    verb = VERBS["schedule", "run-now"]
    (told,) = (await preview(connection, verb, Selection.of_ids(["a"]))).consequences
    assert told.startswith("a: a scheduler starts nightly when one with this schedule runs, within a day: none runs")
    await connection.execute(
        "INSERT INTO horsies_schedulers (scheduler_id, hostname, pid, schedules, horsies_version)"
        " VALUES ('s', 'h', 1, '{a}', '1')"
    )
    (told,) = (await preview(connection, verb, Selection.of_ids(["a"]))).consequences
    assert told.startswith("a: a scheduler starts nightly within a second, and `horsies workflows cancel ID` ends it")


async def test_schedules_of_tasks_and_of_workflows_are_due_together(connection: asyncpg.Connection) -> None:
    config = ScheduleConfig(schedules=[every("t"), nightly().schedule])
    app = application(config)
    both = {one.name: one for one in schedules_of(app, app.tasks)}
    await plan(connection, both)
    await connection.execute("UPDATE horsies_schedule_state SET next_run_at = now()")
    assert {one.name for one in await due(connection, both)} == {"a", "t"}
