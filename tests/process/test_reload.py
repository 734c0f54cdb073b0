"""`horsies worker --reload`: new code runs, new tasks are known, and a broken file changes nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import asyncpg
from test_worker import Table, Worker

SHOP = """
import os, pathlib, time

from horsies import AppConfig, Horsies, PostgresConfig, TaskError, TaskResult

app = Horsies(AppConfig(broker=PostgresConfig(database_url=os.environ["HORSIES_DATABASE_URL"])))

@app.task("price")
def price() -> TaskResult[int, TaskError]:
    return TaskResult(ok=1)

@app.task("wait", requeue_on_interrupt=True)
def wait(file: str) -> TaskResult[int, TaskError]:
    pathlib.Path(file).touch()
    time.sleep(60)
    return TaskResult(ok=1)
"""
GREET = """
from horsies import TaskNode, WorkflowDefinition

class Party(WorkflowDefinition):
    name = "party"
    definition_key = "shop.party"
    first = TaskNode(price)

@app.task("greet", timeout_ms=5_000)
async def greet(name: str) -> TaskResult[str, TaskError]:
    return TaskResult(ok=f"hello {name}")
"""


def result_of(row: asyncpg.Record) -> Any:
    return json.loads(row["result"])["ok"]


def edit(shop: Path, text: str) -> None:
    """As an editor writes it: into another file, which then takes its place."""
    new = shop.with_suffix(".new")
    new.write_text(text)
    new.replace(shop)


async def test_new_code_runs_new_tasks_are_known_and_a_broken_file_changes_nothing(
    start: Callable[..., Worker], table: Table, connection: asyncpg.Connection, tmp_path: Path
) -> None:
    shop = tmp_path / "shop.py"
    shop.write_text(SHOP)
    worker = start("--reload", app=str(shop))
    assert worker.wait_for("watching files")["directories"] == str(tmp_path)
    guard, (before,) = worker.guard().pid, worker.children()
    assert result_of(await table.done(await table.send("price"))) == 1

    # Same size, and within the same second perhaps: bytecode must not hide it.
    waiting = await table.send("wait", str(tmp_path / "begun"))
    await table.until(waiting, "RUNNING")
    edit(shop, SHOP.replace("TaskResult(ok=1)", "TaskResult(ok=2)", 1))
    assert worker.wait_for("interrupted", id=waiting)["now"] == "PENDING"
    assert worker.wait_until(lambda record: record["event"].startswith("reloaded shop.py in "), "a reload")
    await table.until(waiting, "RUNNING")  # again, in the new child
    (child,) = worker.children()
    assert child.pid != before.pid
    assert worker.guard().pid == guard

    edit(shop, SHOP.replace("TaskResult(ok=1)", "TaskResult(ok=2)", 1) + "def broken(:\n")
    told = worker.wait_for("not reloaded shop.py")
    assert "def broken(:" in told["traceback"]
    assert told["traceback"].rstrip().endswith("SyntaxError: invalid syntax")
    assert "importlib" not in told["traceback"]
    assert [each.pid for each in worker.children()] == [child.pid]

    mended = SHOP.replace("TaskResult(ok=1)", "TaskResult(ok=3)", 1).replace('"wait"', '"pause"') + GREET
    edit(shop, mended.replace("AppConfig(", "AppConfig(allow_looks=False, "))
    told = worker.wait_for("tasks")
    assert (told["new"], told["removed"]) == ("greet, pause", "wait")
    assert "restart it" in worker.wait_for("AppConfig has changed", level="WARNING")["reason"]
    assert worker.wait_for("definition has changed", level="WARNING")["of"] == "shop.party"
    greeting, price = await table.send("greet", "you"), await table.send("price")
    assert result_of(await table.done(greeting)) == "hello you"
    assert result_of(await table.done(price)) == 3
    rows = await connection.fetch("SELECT DISTINCT worker_id, pid FROM horsies_worker_states")
    assert [row["pid"] for row in rows] == [worker.process.pid]
    assert worker.stop() == 0
    assert not any(record["event"] == "crashed" for record in worker.all_records())
