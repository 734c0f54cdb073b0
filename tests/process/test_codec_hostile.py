"""Whatever class a row names, and wherever: nothing is imported, and nothing runs that no signature declares."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import asyncpg
import pytest
from database_server import DatabaseServer
from forked_commands import run_command
from test_worker import PATIENCE_S, Table, Worker

from horsies import ContractCode, NodeKey, OperationalErrorCode, TaskHandle, WorkflowHandle
from horsies.task.scheduled import schedules_of

WAIT_MS = int(PATIENCE_S * 1000)
UNREADABLE = OperationalErrorCode.WORKER_SERIALIZATION_ERROR
MODEL, DATACLASS = "__pydantic_model__", "__dataclass__"
NAMES = [
    (tag, module, qualname)
    for tag in (MODEL, DATACLASS)
    for module, qualname in (
        ("hostile_shop.unloaded", "Bomb"),
        ("hostile_shop.loaded", "Bomb"),
        ("hostile_shop.loaded", "Checked"),
        ("hostile_shop.loaded", "Colour"),
        ("hostile_shop.loaded", "Outer.Inner"),
        ("hostile_shop.loaded", "Lazy"),
        ("hostile_shop.loaded", "leave_a_trace"),
        ("hostile_app", "Refund.__class__"),
        ("builtins", "dict"),
        ("os", "system"),
        ("this", "Zen"),
        ("hostile_shop.loaded", ["Bomb"]),
        (None, "Bomb"),
    )
]
EVERY = [{tag: True, "module": module, "qualname": name, "data": {"number": 2}} for tag, module, name in NAMES]
OF_ANOTHER_SIGNATURE = {DATACLASS: True, "module": "hostile_app", "qualname": "Refund", "data": {"number": 2}}
GIFT = {DATACLASS: True, "module": "hostile_app", "qualname": "Gift", "data": {"number": 2}}
ERROR = {
    "__task_error__": True,
    "error_code": "MINE",
    "data": EVERY[0],
    "message": "kept",
    "__error_class__": {"module": "hostile_shop.loaded", "qualname": "ShopError"},
    "exception": {"type": "Bomb", "message": "", "traceback": "", **EVERY[1]},
}


def result(ok: Any = None, err: Any = None) -> str:
    return json.dumps({"__task_result__": True, "ok": ok, "err": err})


class Scene(NamedTuple):
    module: Any
    worker: Worker
    url: str
    ledger: Path

    def check(self) -> None:
        """Nothing was imported here, and nothing ran in any process."""
        assert not self.ledger.exists(), self.ledger.read_text()
        assert "hostile_shop.unloaded" not in sys.modules
        assert "this" not in sys.modules


@pytest.fixture(scope="module")
def scene(server: DatabaseServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    ledger = tmp_path_factory.mktemp("hostile") / "ledger"
    with server.database() as url, pytest.MonkeyPatch.context() as environment:
        environment.setenv("HORSIES_DATABASE_URL", url)
        environment.setenv("HOSTILE_LEDGER", str(ledger))
        module = import_module("hostile_app")
        worker = Worker(app="hostile_app:app", HORSIES_DATABASE_URL=url, HOSTILE_LEDGER=str(ledger))
        worker.wait_for("ready")
        yield Scene(module, worker, url, ledger)
        worker.kill()
        module.app.get_broker().close()
        for name in ("hostile_app", "hostile_shop.loaded", "hostile_shop"):
            del sys.modules[name]


@pytest.fixture
async def table(scene: Scene) -> Any:
    connection = await asyncpg.connect(scene.url)
    table = Table(connection)
    await table.listen()
    yield table
    await connection.close()


async def ended(table: Table, ids: list[str]) -> list[Any]:
    return [json.loads((await table.done(task_id))["result"]) for task_id in ids]


def code_of(stored: Any) -> Any:
    return stored["err"]["error_code"]["__builtin_task_code__"]


async def test_no_argument_makes_a_child_import_or_run_anything(scene: Scene, table: Table) -> None:
    ids = []
    for name in ("tight", "open"):
        for value in [*EVERY, *([OF_ANOTHER_SIGNATURE] if name == "tight" else [])]:
            ids.append(await table.send(name, value))
            ids.append(await table.send(name, [{"deep": [value]}]))
            ids.append(await table.send(name, kwargs=json.dumps({"value": value}), args=None))
    for stored in await ended(table, ids):
        assert code_of(stored) == UNREADABLE
        assert "the stored arguments cannot be read" in stored["err"]["message"]
    # No parameter takes these: the signature refuses the call, whatever is in them.
    others = [await table.send("tight", kwargs=json.dumps({"unknown": OF_ANOTHER_SIGNATURE}), args=None)]
    others.append(await table.send("tight", 1, OF_ANOTHER_SIGNATURE))
    others.append(await table.send("tight", kwargs=json.dumps(OF_ANOTHER_SIGNATURE), args=None))
    for stored in await ended(table, others):
        assert "do not fit tight(value=1)" in stored["err"]["message"]
    # What is declared arrives: by a signature, or by app.storable.
    assert [one["ok"] for one in await ended(table, [await table.send("open", GIFT)])] == ["Gift"]
    (loaded,) = await ended(table, [await table.send("loaded_modules")])
    assert loaded["ok"] == ["hostile_shop", "hostile_shop.loaded"]
    scene.check()


async def test_no_result_of_an_earlier_node_does(scene: Scene, table: Table) -> None:
    ids = []
    for value in [*EVERY, OF_ANOTHER_SIGNATURE]:
        stored = {"value": {"__horsies_taskresult__": True, "data": result(value)}}
        ids.append(await table.send("of_result", kwargs=json.dumps(stored), args=None))
    assert [one["ok"] for one in await ended(table, ids)] == [ContractCode.PYDANTIC_HYDRATION_ERROR.value] * len(ids)
    failed = {"value": {"__horsies_taskresult__": True, "data": result(err=ERROR)}}
    summary = {DATACLASS: True, "module": "horsies.core.models.workflow.context", "qualname": "SubWorkflowSummary"}
    numbers = {"status": "COMPLETED", "total_tasks": 1, "completed_tasks": 1, "failed_tasks": 0, "skipped_tasks": 0}
    context = {
        "__horsies_workflow_ctx__": {
            "workflow_id": "w",
            "task_index": 1,
            "task_name": "of_context",
            "results_by_id": {str(place): result(value) for place, value in enumerate(EVERY)},
            "summaries_by_id": {"s": json.dumps({**summary, "data": {**numbers, "output": EVERY[0]}})},
            "damaged": EVERY[0],
        }
    }
    own = [await table.send("of_result", kwargs=json.dumps(failed), args=None)]
    own.append(await table.send("of_context", kwargs=json.dumps(context), args=None))
    of_error, of_context = await ended(table, own)
    assert of_error["ok"] == "MINE"
    assert of_context["ok"] == [ContractCode.PYDANTIC_HYDRATION_ERROR.value] * len(EVERY) + ["dict"]
    scene.check()


async def test_no_stored_result_makes_a_producer_do_it(scene: Scene, table: Table) -> None:
    app, broker = scene.module.app, scene.module.app.get_broker()
    task_id = await table.send("tight", 1)
    await table.done(task_id)

    async def read(stored: str) -> list[Any]:
        await table.connection.execute("UPDATE horsies_tasks SET result = $1 WHERE id = $2", stored, task_id)
        by_id: TaskHandle[Any] = TaskHandle(task_id, broker)
        info = await scene.module.tight.handle(task_id).info_async(include_result=True)
        return [await scene.module.tight.handle(task_id).get_async(0), await by_id.get_async(0), info.unwrap().result]

    for value in EVERY:
        for found in await read(result([value])):
            assert found.err.error_code is ContractCode.PYDANTIC_HYDRATION_ERROR
        for found in await read(result(err={**ERROR, "data": value})):
            assert (found.err.error_code, found.err.data) == ("MINE", value)
    by_task, *_ = await read(result(OF_ANOTHER_SIGNATURE))
    assert by_task.err.error_code is ContractCode.PYDANTIC_HYDRATION_ERROR
    assert "does not fit the declared type" in by_task.err.message
    # That by_id built a Refund is right: this application declares the class, and no type says otherwise.
    scene.ledger.unlink()
    by_task, by_id, _ = await read(result(EVERY[13]))
    assert "app.storable(...)" in by_id.err.message
    _, by_id, in_info = await read(result(GIFT))
    assert by_id.ok_value == in_info.ok_value == scene.module.Gift(2)
    assert app.tasks["tight"] is scene.module.tight
    scene.check()


async def test_no_row_of_a_workflow_does(scene: Scene, table: Table) -> None:
    handle: WorkflowHandle[Any] = (await scene.module.parent().start_async()).unwrap()
    connection = table.connection
    assert (await handle.get_async(WAIT_MS)).is_ok()
    workflow_id = handle.workflow_id
    for value in EVERY:
        await connection.execute(
            "UPDATE horsies_workflows SET status = 'COMPLETED', result = $2 WHERE id = $1", workflow_id, result(value)
        )
        await connection.execute(
            "UPDATE horsies_workflow_tasks SET result = $2, sub_workflow_summary = $3 WHERE workflow_id = $1",
            workflow_id,
            result(value),
            json.dumps(value),
        )
        read = [await handle.get_async(0), await WorkflowHandle(workflow_id, handle.broker).get_async(0)]
        read += [await handle.result_for_async(scene.module.parent().tasks[0])]
        read += (await handle.results_async()).unwrap().values()
        assert [one.err.error_code for one in read] == [ContractCode.PYDANTIC_HYDRATION_ERROR] * 5
        assert all(node.sub_workflow_summary for node in (await handle.tasks_async()).unwrap())
    error = json.dumps({**ERROR, "data": EVERY[13]})
    await connection.execute(
        "UPDATE horsies_workflows SET status = 'FAILED', result = NULL, error = $2 WHERE id = $1", workflow_id, error
    )
    found = await handle.get_async(0)
    assert (found.err_value.error_code, found.err_value.data) == ("MINE", EVERY[13])
    scene.check()


async def test_no_arguments_of_a_sub_workflow_do(scene: Scene, table: Table) -> None:
    handles = []
    for value in [*EVERY, OF_ANOTHER_SIGNATURE]:
        async with table.connection.transaction():
            handle = (await scene.module.parent().start_async(connection=table.connection)).unwrap()
            changed = "UPDATE horsies_workflow_tasks SET task_kwargs = $2 WHERE workflow_id = $1 AND task_index = 1"
            await table.connection.execute(changed, handle.workflow_id, json.dumps({"value": value}))
        handles.append(handle)
    for handle in handles:
        assert (await handle.get_async(WAIT_MS)).is_err()
        child = await handle.result_for_async(NodeKey("child"))
        assert child.err_value.error_code is UNREADABLE
    scene.check()


async def test_no_schedule_and_no_command_do(scene: Scene, table: Table) -> None:
    (schedule,) = schedules_of(scene.module.app, scene.module.app.tasks)
    environ = {**os.environ, "HORSIES_DATABASE_URL": scene.url, "HOSTILE_LEDGER": str(scene.ledger)}

    def run(*words: str) -> str:
        done = run_command([*words], env=environ, cwd=Path(__file__).parent, text=True)
        assert done.returncode == 0, done.stderr
        return str(done.stdout)

    for value in (EVERY[0], EVERY[13]):
        definition = json.loads(schedule.definition) | {"args": json.dumps([value])}
        await table.connection.execute(
            "INSERT INTO horsies_schedules (schedule_name, config_hash, definition) VALUES ('yearly', 'h', $1) "
            "ON CONFLICT (schedule_name) DO UPDATE SET definition = EXCLUDED.definition",
            json.dumps(definition),
        )
        run("schedules", "run-now", "yearly", "--yes")
        task_id = await table.connection.fetchval(
            "SELECT task_id FROM horsies_schedule_runs ORDER BY slot DESC LIMIT 1"
        )
        (stored,) = await ended(table, [task_id])
        assert code_of(stored) == UNREADABLE
        shown = run("tasks", "show", task_id)
        assert f"{value['module']}.{value['qualname']}" in shown
        run("schedules", "ls", "--json")
    scene.check()
