"""What an operator writes by hand is stored as the value of the type that belongs there, or refused in the preview."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from importlib import import_module
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from cli_steps import failed, horsies
from feed_steps import linked

from horsies.cli.verbs.typed_values import ApplicationTypes
from horsies.operations.selection import Selection
from horsies.operations.target import OperationError
from horsies.operations.verbs import VERBS
from horsies_tui.feed.status import LinkState
from horsies_tui.intents import ConsoleOperation, Intent

PARCEL = '{"weight": 2, "due": "2026-11-20", "orders": [{"number": 7, "price": "2.50"}]}'
ORDER = '{"__pydantic_model__":true,"module":"repair_app","qualname":"Order","data":{"number":7,"price":"1"}}'


@pytest.fixture
def shop(database: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Any]:
    monkeypatch.setenv("HORSIES_DATABASE_URL", database)
    monkeypatch.setenv("HORSIES_MODULE", "repair_app:app")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("HORSIES_READ_ONLY", raising=False)
    module = import_module("repair_app")
    yield module
    module.app.get_broker().close()
    del sys.modules["repair_app"]


@pytest.mark.parametrize(
    ("node", "value", "after"),
    [("one", PARCEL, "ship"), ("each", f"[{PARCEL}]", "ship_all"), ("below", PARCEL, "ship")],
)
async def test_the_value_of_a_node_reaches_the_next_one_as_its_type(
    shop: Any, connection: asyncpg.Connection, node: str, value: str, after: str
) -> None:
    handle = (await shop.flow().start_async()).unwrap()
    done = await horsies("workflows", "complete", handle.workflow_id, node, "--value", value, "--yes")
    assert done.code == 0, done.err
    parcel = shop.Parcel(2.0, date(2026, 11, 20), [shop.Order(number=7, price=Decimal("2.50"))])
    found = (await handle.results_async()).unwrap()[node].ok_value
    assert found == ([parcel] if node == "each" else parcel)
    task = await connection.fetchrow(
        "SELECT task.task_name, kwargs FROM horsies_tasks task JOIN horsies_workflow_tasks node ON task_id = task.id"
        " WHERE node_id = $1",
        f"after_{node}",
    )
    assert task["task_name"] == after
    loaded = shop.app.tasks[after].load(None, task["kwargs"])
    (argument,) = loaded[1].values()
    assert argument.ok_value == found
    # What is stored has its types already, and may be given again as it is.
    again = await horsies("workflows", "complete", handle.workflow_id, "one", "--value", "null", "--dry-run", "--json")
    assert "does not fit what pack returns" in again.err or "already COMPLETED" in again.out


async def test_a_value_that_does_not_fit_is_refused_in_the_preview(shop: Any, connection: asyncpg.Connection) -> None:
    handle = (await shop.flow().start_async()).unwrap()
    for node, value, why in (
        ("one", '{"weight": 2}', "value.due: Field required"),
        ("one", '"parcel"', "value: Input should be"),
        ("each", PARCEL, "value: Input should be a valid array"),
        ("below", '{"weight": "heavy", "due": "2026-11-20", "orders": []}', "value.weight"),
        ("after_one", '"no uuid"', "value: Input should be a valid UUID"),
    ):
        refused = await horsies("workflows", "complete", handle.workflow_id, node, "--value", value, "--yes")
        assert refused.code == 1
        assert why in refused.err
    assert await connection.fetchval("SELECT count(*) FROM horsies_operator_actions") == 0


async def test_a_rerun_sends_plain_json_as_what_its_task_takes(shop: Any, connection: asyncpg.Connection) -> None:
    await failed(connection, "t", task_name="'pack'", args=f"'[{ORDER}]'")
    given = '[{"number": 8}, "2026-11-20T10:00:00Z", "red"]'
    done = await horsies("tasks", "rerun", "t", "--args", given, "--yes", "--json")
    assert done.code == 0, done.err
    copy = await connection.fetchrow("SELECT args, kwargs FROM horsies_tasks WHERE rerun_of = 't'")
    assert json.loads(copy["args"])[0] == {**json.loads(ORDER), "data": {"number": 8, "price": "1"}}
    args, _ = shop.pack.parameters.from_stored(*shop.pack.load(copy["args"], copy["kwargs"]))
    assert args == [shop.Order(number=8), datetime(2026, 11, 20, 10, tzinfo=UTC), shop.Colour.RED]
    for wrong, why in (
        ('[{"number": "eight"}]', "args[0].number: Input should be a valid integer"),
        ("[7]", "args[0]"),
        ("[]", "missing a required argument: 'order'"),
        ('[{"number": 8}, null, "red", 4]', "too many positional arguments"),
    ):
        refused = await horsies("tasks", "rerun", "t", "--args", wrong, "--yes")
        assert (refused.code, why in refused.err) == (1, True), refused.err
    assert await connection.fetchval("SELECT count(*) FROM horsies_tasks WHERE rerun_of = 't'") == 1


async def test_without_the_application_plain_json_in_place_of_an_object_is_refused(
    shop: Any, connection: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HORSIES_MODULE")
    moment = '{"__datetime__":true,"value":"2026-11-20T10:00:00+00:00"}'
    await failed(connection, "t", task_name="'pack'", args=f"'[{ORDER}]'", kwargs=f"'{{\"when\":{moment}}}'")
    for words, what in (
        (("--args", '[{"number": 8}]'), "args[0] was stored as repair_app.Order, and is plain JSON now"),
        (("--kwargs", '{"when": "2026-11-20"}'), "kwargs.when was stored as datetime, and is plain JSON now"),
    ):
        refused = await horsies("tasks", "rerun", "t", *words, "--yes")
        assert (refused.code, what in refused.err) == (1, True), refused.err
        assert "--module shop.tasks:app" in refused.err
    kept = await horsies("tasks", "rerun", "t", "--args", f"[{ORDER.replace('7', '8')}]", "--kwargs", "{}", "--yes")
    assert kept.code == 0, kept.err


async def test_the_application_of_other_tasks_changes_nothing(shop: Any, connection: asyncpg.Connection) -> None:
    await failed(connection, "t", args="'[1]'")
    done = await horsies("tasks", "rerun", "t", "--args", '[{"number": 8}]', "--yes")
    assert done.code == 0, done.err
    assert await connection.fetchval("SELECT args FROM horsies_tasks WHERE rerun_of = 't'") == '[{"number":8}]'


async def test_the_console_converts_as_the_commands_do(
    shop: Any, connection: asyncpg.Connection, database: str
) -> None:
    handle = (await shop.flow().start_async()).unwrap()
    await failed(connection, "t", task_name="'pack'", args=f"'[{ORDER}]'")
    rerun, complete = VERBS["task", "rerun"], VERBS["node", "complete"]
    node = Selection.of_node(handle.workflow_id, 0)

    def types() -> ApplicationTypes:
        return ApplicationTypes("repair_app:app")

    async with linked(database) as (link, statuses):
        await statuses.until(lambda status: status.state is LinkState.LIVE)
        wrong = ConsoleOperation(link, Intent(complete, node, {"value": "1"}), types)
        with pytest.raises(OperationError, match="does not fit what pack returns"):
            await wrong.look()
        for intent in (
            Intent(complete, node, {"value": PARCEL}),
            Intent(rerun, Selection.of_ids(["t"]), {"args": '[{"number": 8}]', "kwargs": None}),
        ):
            operation = ConsoleOperation(link, intent, types)
            done = await operation.do(await operation.look(), None, lambda *_: None)
            assert done.went_well, done.skipped
        untyped = ConsoleOperation(link, Intent(rerun, Selection.of_ids(["t"]), {"args": '[{"number": 8}]'}))
        with pytest.raises(OperationError, match="is plain JSON now"):
            await untyped.look()
    assert type((await handle.results_async()).unwrap()["one"].ok_value) is shop.Parcel
    args = await connection.fetchval("SELECT args FROM horsies_tasks WHERE rerun_of = 't'")
    assert shop.pack.why_not_run(args, None) is None
