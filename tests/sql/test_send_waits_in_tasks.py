"""A task that waits for another one inside of its run is logged, with how many children wait like this."""

from __future__ import annotations

import asyncio
import logging
import os
from struct import pack

import asyncpg
import pytest
from blackhole_proxy import BlackholeProxy

from horsies import AppConfig, Horsies, PostgresConfig, TaskError, TaskResult, waits_in_tasks
from horsies.run.pool.process import shared_memory
from horsies.waits_in_tasks import WAIT_BYTES

ENDED = 'UPDATE horsies_tasks SET status = \'COMPLETED\', result = \'{"__task_result__":true,"ok":1,"err":null}\''


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "horsies"]


def test_a_sync_task_that_waits_is_told_once_with_its_siblings(
    app: Horsies, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counted in memory that the children of a worker share: a directory would need a name that all of them know."""
    memory, of_a_killed_child = shared_memory("waits", 3 * WAIT_BYTES), 999_999_999
    os.pwrite(memory, pack("3q", os.getppid(), of_a_killed_child, 0), 0)
    monkeypatch.setattr(waits_in_tasks, "_siblings", waits_in_tasks.SiblingWaits(memory, 2))

    def part() -> TaskResult[int, TaskError]:
        return TaskResult(ok=1)

    def report() -> TaskResult[str, TaskError]:
        waited = parts.send().unwrap().get(30)
        assert waited.err is not None
        return TaskResult(ok=str(waited.err.error_code))

    parts, reports = app.task("part", part), app.task("siblings.report", report)
    with caplog.at_level(logging.WARNING, "horsies"):
        for _ in range(2):
            assert reports.run([], {}).ok == "WAIT_TIMEOUT"
    (warning,) = told(caplog)
    assert warning.startswith("task 'siblings.report' waits for a result inside of its run, with a blocking get(): ")
    assert "2 children of its worker wait like this now" in warning
    assert "make both nodes of a workflow" in warning
    assert os.pread(memory, 24, 0) == pack("3q", os.getppid(), of_a_killed_child, 0)
    os.close(memory)


async def test_a_result_that_is_there_and_a_wait_outside_of_tasks_are_no_reason_to_warn(
    app: Horsies, connection: asyncpg.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    def part() -> TaskResult[int, TaskError]:
        return TaskResult(ok=1)

    parts = app.task("part", part)
    sent = parts.send().unwrap()

    def report() -> TaskResult[int, TaskError]:
        return TaskResult(ok=sent.get(1_000).unwrap())

    with caplog.at_level(logging.WARNING, "horsies"):
        assert (await asyncio.to_thread(sent.get, 20)).err is not None
        await connection.execute(ENDED)
        assert (await asyncio.to_thread(app.task("ready.report", report).run, [], {})).ok == 1
    assert told(caplog) == []


async def test_a_wait_in_a_task_outlasts_a_database_that_cannot_be_reached(
    database: str, connection: asyncpg.Connection
) -> None:
    """As one outside of tasks does: a single look has no patience."""
    async with BlackholeProxy(database) as proxy:
        app = Horsies(AppConfig(broker=PostgresConfig(database_url=proxy.url)))

        def part() -> TaskResult[int, TaskError]:
            return TaskResult(ok=1)

        def report() -> TaskResult[int, TaskError]:
            return TaskResult(ok=sent.get(10_000).unwrap())

        parts, reports = app.task("part", part), app.task("patient.report", report)
        sent = (await parts.send_async()).unwrap()
        await connection.execute(ENDED)
        proxy.refuse(2)
        proxy.cut()
        assert (await asyncio.to_thread(reports.run, [], {})).ok == 1
        await app.get_broker().close_async()


async def test_an_async_task_is_told_if_it_blocks_its_loop(app: Horsies, caplog: pytest.LogCaptureFixture) -> None:
    def part() -> TaskResult[int, TaskError]:
        return TaskResult(ok=1)

    async def polite() -> TaskResult[None, TaskError]:
        sent = parts.send().unwrap()
        await sent.get_async(20)
        await asyncio.to_thread(sent.get, 20)
        return TaskResult(ok=None)

    async def rude() -> TaskResult[None, TaskError]:
        parts.send().unwrap().get(20)
        return TaskResult(ok=None)

    parts = app.task("part", part)
    with caplog.at_level(logging.WARNING, "horsies"):
        await app.task("polite", polite).run_async([], {})
        assert told(caplog) == []
        await app.task("rude", rude).run_async([], {})
    (warning,) = told(caplog)
    assert warning.startswith("task 'rude' waits for a result inside of its run, with a blocking get(): until it comes")
    assert warning.endswith("use await get_async()")


def test_a_wait_for_a_workflow_is_told_as_well(app: Horsies, caplog: pytest.LogCaptureFixture) -> None:
    def part() -> TaskResult[int, TaskError]:
        return TaskResult(ok=1)

    def report() -> TaskResult[None, TaskError]:
        spec = app.workflow("flow", [parts.node()()], definition_key="flow")
        spec.start().unwrap().get(30)
        return TaskResult(ok=None)

    parts, reports = app.task("part", part), app.task("workflow.report", report)
    with caplog.at_level(logging.WARNING, "horsies"):
        assert reports.run([], {}).err is None
    (warning,) = told(caplog)
    assert "1 child of its worker waits like this now" in warning
