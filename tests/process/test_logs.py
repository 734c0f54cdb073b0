"""What user code logs and raises in a child is in the worker's log: one record each, with level, logger and task."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from database_server import DatabaseServer
from test_worker import HERE, Served, Table, Worker, options, result_of, serving


@pytest.fixture
def start(start: Callable[..., Worker], tmp_path: Path) -> Callable[..., Worker]:
    return partial(start, app="watched_app:app", ready=False, TEST_TOLD=str(tmp_path / "told"))


@pytest.fixture(scope="module")
def shared_worker(server: DatabaseServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Worker]]:
    told_to = str(tmp_path_factory.mktemp("logs") / "told")
    with serving(server, "--loglevel", "INFO", app="watched_app:app", TEST_TOLD=told_to) as served:
        yield served


async def records(worker: Worker, task_id: str) -> list[dict[str, Any]]:
    """Those of a task that has finished, up to its end."""
    ends = ("finished", "failed", "retry")
    last = await asyncio.to_thread(
        worker.wait_until, lambda one: one["event"] in ends and one["id"] == task_id, "the end"
    )
    found = [record for record in worker.events if record.get("id") == task_id]
    for record in found:
        worker.events.remove(record)
    return [*found, last]


async def test_records_keep_their_level_logger_fields_and_lines(served: Served) -> None:
    task_id = await served.send("chatter")
    await served.done(task_id)
    logged = [one for one in await records(served.worker, task_id) if one["event"] == "log"]
    first, second, thread = (
        {key: value for key, value in one.items() if key not in ("at", "traceback")} for one in logged
    )
    known = {"event": "log", "id": task_id, "task": "chatter", "child": 1}
    extra = {"order": 7, "cart": "{'a'}", "task": "mine"}
    assert first == {**known, "level": "INFO", "logger": "shop.mail", "message": "two\nlines", "extra": extra}
    assert second == {**known, "level": "ERROR", "logger": "shop.mail", "message": "could not count"}
    assert thread == {**known, "level": "ERROR", "logger": "horsies.thread", "message": "exception in thread counts"}
    assert "KeyError: 'stock'" in logged[1]["traceback"]
    assert "ZeroDivisionError" in logged[2]["traceback"]


async def test_what_is_not_logged_is_a_line_of_its_stream(served: Served) -> None:
    task_id = await served.send("chatter")
    await served.done(task_id)
    found = await records(served.worker, task_id)
    lines = {(one["event"], one["level"], one["line"]) for one in found if "line" in one}
    assert ("stdout", "INFO", "on stdout") in lines
    assert ("stderr", "WARNING", "on stderr") in lines
    assert any("--- Logging error ---" in line for *_, line in lines)  # as `logging` itself has it


async def test_the_logger_of_the_task_adds_its_fields(served: Served) -> None:
    task_id = await served.send("who_am_i")
    await served.done(task_id)
    record, _ = await records(served.worker, task_id)
    assert (record["message"], record["logger"], record["level"]) == ("it is me", "horsies.task", "WARNING")
    assert record["extra"] == {"colour": "red", "queue": "default", "attempt": 1}


async def test_the_record_of_a_failure_has_its_traceback(served: Served, tmp_path: Path) -> None:
    for name in ("raises", "raises_async"):
        task_id = await served.send(name, max_retries=1, task_options=options(["UNHANDLED_EXCEPTION"]))
        await served.done(task_id)
        for event in ("retry", "failed"):
            *_, record = await records(served.worker, task_id)
            assert (record["event"], record["code"]) == (event, "UNHANDLED_EXCEPTION")
            assert f", in {name}\n" in record["traceback"]
            assert record["traceback"].endswith("ValueError: no such customer\n")
    refused = await served.send("refuse")
    await served.done(refused)
    assert "traceback" not in (await records(served.worker, refused))[-1]


async def test_async_tasks_side_by_side_log_under_their_own_ids(served: Served) -> None:
    ids = [await served.send("marks_async", number) for number in range(3)]
    for number, task_id in enumerate(ids):
        await served.done(task_id)
        logged = [one["message"] for one in await records(served.worker, task_id) if one["event"] == "log"]
        assert logged == [f"run {number}"]


async def test_a_flood_of_records_is_cut_and_counted_and_hides_no_error(served: Served) -> None:
    task_id = await served.send("flood_log", 20_000)
    await served.done(task_id)
    logged = [one for one in await records(served.worker, task_id) if one["event"] == "log"]
    left_out = [int(one["message"].split()[0].replace(",", "")) for one in logged if one["logger"] == "horsies.log"]
    assert 5_000 <= len(logged) < 20_000
    assert sum(left_out) + len(logged) - len(left_out) == 20_001
    assert ("ERROR", "after the flood") in [(one["level"], one["message"]) for one in logged]
    assert result_of(await served.row(task_id))["ok"] is None


async def test_a_process_that_a_task_forks_logs_to_stderr(served: Served) -> None:
    task_id = await served.send("forks")
    await served.done(task_id)
    assert ("stderr", "ERROR shop.mail: in the fork") in [
        (one["event"], one.get("line")) for one in await records(served.worker, task_id)
    ]


async def test_the_kept_output_of_a_failed_attempt_has_the_records(served: Served) -> None:
    task_id = await served.send("chatter", "too many arguments")
    other = await served.send("refuse_loudly")
    await served.done(task_id)
    await served.done(other)
    (attempt,) = await served.attempts(other)
    first, *rest = attempt["output"].splitlines()
    assert first == "ERROR shop.mail: could not deliver"
    assert rest[0] == "Traceback (most recent call last):"
    assert rest[-1] == "OSError: no route"


async def test_a_stop_in_the_middle_of_logging_leaves_the_child_usable(
    table: Table, start: Callable[..., Worker]
) -> None:
    worker = start("--loglevel", "DEBUG")
    await asyncio.to_thread(worker.wait_for, "ready")
    (child,) = worker.children()
    for _ in range(5):
        assert (await table.done(await table.send("log_for_ever")))["error_code"] == "TASK_TIMEOUT"
    assert (await table.done(await table.send("add", 1, 2)))["status"] == "COMPLETED"
    assert worker.children() == [child]


@pytest.mark.parametrize("level", ["WARNING", "ERROR"])
async def test_a_log_level_leaves_what_is_as_grave(table: Table, start: Callable[..., Worker], level: str) -> None:
    worker = start("--loglevel", level)
    task_id = await table.send("chatter")
    await table.done(task_id)
    assert await asyncio.to_thread(worker.stop) == 0
    worker.kill()
    found = worker.all_records()
    assert {"could not count", "exception in thread counts"} <= {one.get("message") for one in found}
    assert {one["level"] for one in found} <= {"WARNING", "ERROR"}
    assert ("stderr" in {one["event"] for one in found}) == (level == "WARNING")


async def test_no_text_of_a_task_acts_on_the_terminal_or_looks_like_a_record(
    table: Table, start: Callable[..., Worker]
) -> None:
    """Ids, unknown names, output, records and exceptions, in the log for people."""
    text = "x\n12:00:00 finished\rpay \x1b[2J\x9b\u202e\u2028 postgresql://bob:hunter2@db/shop"
    forged = "y\n12:00:00 finished\x1b[2J\x9b\u202e pay"
    worker = start("--log-format", "human", "--unknown-tasks", "fail")
    unknown = await table.send(text, id=forged)
    cries = await table.send("cries", text, unique_key=text)
    for task_id in (unknown, cries):
        assert (await table.done(task_id))["status"] == "FAILED"
    assert await asyncio.to_thread(worker.stop) == 0
    worker.kill()
    lines = [one["text"].removesuffix("\n") for one in worker.all_records()]
    assert [line for line in lines if not line.isprintable()] == []
    assert [line for line in lines if line.startswith("12:00:00 finished") or "hunter2" in line] == []
    assert sum("12:00:00 finished" in line for line in lines) >= 4, "all of it is there"
    below = [line for line in lines if not re.match(r"\d\d:\d\d:\d\d ", line)]
    assert all(line.startswith("    ") for line in below)
    assert "    Traceback (most recent call last):" in below


async def test_an_application_that_configures_logging_keeps_its_words_and_no_line_comes_twice(
    table: Table, start: Callable[..., Worker]
) -> None:
    worker = start("--loglevel", "INFO", TEST_BASIC_CONFIG="[%(levelname)s] %(message)s")
    task_id = await table.send("chatter")
    await table.done(task_id)
    logged = [one for one in await records(worker, task_id) if one["event"] == "log"]
    assert [(one["level"], one["logger"]) for one in logged][:2] == [("INFO", "shop.mail"), ("ERROR", "shop.mail")]
    assert logged[0]["message"] == "[INFO] two\nlines"
    assert logged[1]["message"].startswith("[ERROR] could not count\nTraceback (most recent call last):\n")
    assert len(logged) == 2
    assert await asyncio.to_thread(worker.stop) == 0


async def test_a_worker_inside_a_program_logs_by_the_configuration_of_that(
    database: str, table: Table, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HORSIES_DATABASE_URL", database)
    monkeypatch.setenv("TEST_TOLD", str(tmp_path / "told"))
    monkeypatch.syspath_prepend(str(HERE))
    caplog.set_level(logging.INFO, "horsies")
    for name in ("worker_app", "watched_app"):  # of a test before this one, with its database
        monkeypatch.delitem(sys.modules, name, raising=False)
    from watched_app import app  # noqa: PLC0415 - it reads its environment

    refused, chatter = await table.send("refuse"), await table.send("chatter")
    async with app.run_worker(locator="watched_app:app"):
        await table.done(refused)
        await table.done(chatter)
    (failed,) = [record for record in caplog.records if vars(record).get("event") == "failed"]
    assert (failed.name, failed.levelname) == ("horsies.worker", "WARNING")
    told = {name: vars(failed)[name] for name in ("task", "id", "code")}
    assert told == {"task": "refuse", "id": refused, "code": "CARD_DECLINED"}
    assert failed.getMessage() == f"failed refuse code=CARD_DECLINED message=no {refused}"
    (logged,) = [record for record in caplog.records if "could not count" in record.getMessage()]
    assert (logged.name, logged.levelname, vars(logged)["id"]) == ("horsies.output", "ERROR", chatter)
    first, *rest = logged.getMessage().splitlines()
    assert first == f"log shop.mail chatter {chatter} | could not count"
    assert rest[-1] == "    KeyError: 'stock'"
    assert json.dumps(vars(logged)["fields"])
