"""The rows that starting a workflow stores, and its errors."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import asyncpg
import pytest
from workflow_plans import Spec, node, plan

from horsies import (
    Err,
    ErrorCode,
    Horsies,
    Ok,
    PostgresConfig,
    WorkflowStartErrorCode,
    WorkflowValidationError,
    start_workflow,
    start_workflow_async,
)
from horsies.broker import PostgresBroker
from horsies.domain.codec import CodecError
from horsies.domain.errors import ConfigurationError
from horsies.domain.plan import WorkflowPlan
from horsies.store.loop_thread import drive_awaited, drive_blocking
from horsies.workflow.starting import starting_again, starting_own

UNREACHABLE = "postgresql://nobody@localhost:1/none"
SENT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
DIAMOND = plan(node(0), node(1, 0), node(2, 0), node(3, 1, 2))


@pytest.fixture
def broker(app: Horsies) -> PostgresBroker:
    return app.get_broker()


@pytest.fixture
def away() -> Iterator[PostgresBroker]:
    """A broker whose database is down."""
    made = PostgresBroker(PostgresConfig(database_url=UNREACHABLE))
    yield made
    made.close()


async def rows(connection: asyncpg.Connection, query: str, *parameters: Any) -> list[dict[str, Any]]:
    return [dict(row) for row in await connection.fetch(query, *parameters)]


async def test_a_start_stores_the_workflow_as_documented(
    connection: asyncpg.Connection, broker: PostgresBroker
) -> None:
    policy = '{"cases":[{"required_indices":[3]}],"optional_indices":[1]}'
    spec = Spec(plan(node(0), on_error="pause", output_index=0, success_policy=policy), broker)
    handle = (await start_workflow_async(spec, broker, "w-1", SENT)).unwrap()
    assert handle.workflow_id == "w-1"
    (row,) = await rows(connection, "SELECT * FROM horsies_workflows")
    assert json.loads(row.pop("success_policy")) == json.loads(policy)
    for name in ("created_at", "started_at", "updated_at"):
        assert row.pop(name) is not None
    assert row == {
        "id": "w-1",
        "name": "demo",
        "status": "RUNNING",
        "on_error": "pause",
        "output_task_index": 0,
        "result": None,
        "error": None,
        "definition_key": "demo.v1",
        "parent_workflow_id": None,
        "parent_task_index": None,
        "depth": 0,
        "root_workflow_id": "w-1",
        "sent_at": SENT,
        "completed_at": None,
    }


async def test_a_start_stores_the_nodes_as_documented(connection: asyncpg.Connection, broker: PostgresBroker) -> None:
    joined = node(
        2,
        *(0, 1),
        node_id="n.2:x-y_z",
        args_from={"left": 0},
        ctx_from=("n0", "n1"),
        allow_failed_deps=True,
        join="quorum",
        min_success=1,
        queue_name="fast",
        priority=7,
        kwargs_json=None,
    )
    child = node(3, 2, task_name="child", sub_definition_key="child.v1", task_options=None)
    start_workflow(Spec(plan(node(0), node(1), joined, child), broker), broker, "w-1").unwrap()
    found = await rows(connection, "SELECT * FROM horsies_workflow_tasks ORDER BY task_index")
    assert [row["status"] for row in found[2:]] == ["PENDING", "PENDING"]
    assert found[2]["created_at"] is not None
    assert len({row["id"] for row in found}) == 4
    kept = {name: value for name, value in found[2].items() if name not in ("id", "created_at", "status")}
    assert kept == {
        "workflow_id": "w-1",
        "task_index": 2,
        "node_id": "n.2:x-y_z",
        "task_name": "demo.add",
        "task_args": "[]",
        "task_kwargs": "{}",
        "queue_name": "fast",
        "priority": 7,
        "dependencies": [0, 1],
        "args_from": '{"left": 0}',
        "workflow_ctx_from": ["n0", "n1"],
        "allow_failed_deps": True,
        "join_type": "quorum",
        "min_success": 1,
        "task_options": '{"retry_policy":null,"good_until":null}',
        "task_id": None,
        "is_subworkflow": False,
        "sub_workflow_id": None,
        "sub_workflow_name": None,
        "sub_definition_key": None,
        "sub_workflow_summary": None,
        "result": None,
        "error": None,
        "started_at": None,
        "completed_at": None,
    }
    names = ("is_subworkflow", "sub_workflow_name", "sub_definition_key", "args_from", "workflow_ctx_from")
    assert [found[3][name] for name in names] == [True, "child", "child.v1", None, None]


async def test_the_tasks_of_the_roots_are_enqueued_in_the_same_transaction(
    connection: asyncpg.Connection, broker: PostgresBroker
) -> None:
    start_workflow(Spec(DIAMOND, broker), broker, "w-1").unwrap()
    (root, *others) = await rows(connection, "SELECT * FROM horsies_workflow_tasks ORDER BY task_index")
    assert root["status"] == "ENQUEUED"
    assert [row["task_id"] for row in others] == [None, None, None]
    (task,) = await rows(connection, "SELECT * FROM horsies_tasks")
    assert task["id"] == root["task_id"]
    assert task["is_workflow_task"]
    assert json.loads(task["kwargs"]) == {
        "a": 1,
        "__horsies_workflow_meta__": {
            "workflow_id": "w-1",
            "task_index": 0,
            "task_name": "demo.add",
            "node_id": root["node_id"],
        },
    }


async def test_the_same_id_from_many_sides_at_once_is_one_workflow(
    connection: asyncpg.Connection, broker: PostgresBroker
) -> None:
    started = await asyncio.gather(*(start_workflow_async(Spec(DIAMOND, broker), broker, "w-1") for _ in range(20)))
    started.append(start_workflow(Spec(DIAMOND, broker), broker, "w-1"))
    assert {result.unwrap().workflow_id for result in started} == {"w-1"}
    assert await connection.fetchval("SELECT count(*) FROM horsies_workflow_tasks") == 4
    assert await connection.fetchval("SELECT count(*) FROM horsies_tasks") == 1


def test_the_id_of_another_workflow_is_refused(broker: PostgresBroker) -> None:
    start_workflow(Spec(DIAMOND, broker), broker, "w-1").unwrap()
    error = start_workflow(Spec(plan(node(0), name="other"), broker), broker, "w-1").unwrap_err()
    assert error.code is WorkflowStartErrorCode.VALIDATION_FAILED
    assert (error.workflow_name, error.workflow_id, error.retryable) == ("other", "w-1", False)
    assert "belongs to the workflow 'demo'" in error.message


OTHERS: dict[str, tuple[WorkflowPlan, str]] = {
    "key": (replace(DIAMOND, definition_key="another"), "another definition"),
    "fewer": (replace(DIAMOND, nodes=DIAMOND.nodes[:3]), "other nodes, as to the node"),
    "kwargs": (
        replace(DIAMOND, nodes=(replace(DIAMOND.nodes[0], kwargs_json='{"a":2}'), *DIAMOND.nodes[1:])),
        "other arguments for the node",
    ),
    "task": (
        replace(DIAMOND, nodes=(replace(DIAMOND.nodes[0], task_name="other"), *DIAMOND.nodes[1:])),
        "another task for the node",
    ),
    "dependencies": (
        replace(DIAMOND, nodes=(*DIAMOND.nodes[:3], replace(DIAMOND.nodes[3], dependencies=(0,)))),
        "other dependencies of the node",
    ),
}


@pytest.mark.parametrize(("other", "words"), OTHERS.values(), ids=OTHERS)
async def test_an_id_does_not_stand_for_other_work_of_the_same_name(
    other: WorkflowPlan, words: str, connection: asyncpg.Connection, broker: PostgresBroker
) -> None:
    start_workflow(Spec(DIAMOND, broker), broker, "w-1").unwrap()
    for answer in (
        start_workflow(Spec(other, broker), broker, "w-1"),
        await start_workflow_async(Spec(other, broker), broker, "w-1"),
    ):
        error = answer.unwrap_err()
        assert (error.code, error.retryable) == (WorkflowStartErrorCode.VALIDATION_FAILED, False)
        assert f"belongs to a 'demo' with {words}" in error.message
    assert await connection.fetchval("SELECT count(*) FROM horsies_workflow_tasks") == 4


async def test_a_failed_start_leaves_nothing(connection: asyncpg.Connection, broker: PostgresBroker) -> None:
    twice = plan(node(0), node(0))
    error = start_workflow(Spec(twice, broker), broker, "w-1").unwrap_err()
    assert (error.code, error.retryable) == (WorkflowStartErrorCode.ENQUEUE_FAILED, False)
    assert await connection.fetchval("SELECT count(*) FROM horsies_workflows") == 0


async def test_a_start_from_threads_and_loops_and_inside_a_running_loop(
    connection: asyncpg.Connection, broker: PostgresBroker
) -> None:
    spec = Spec(DIAMOND, broker)

    def blocking() -> object:
        return start_workflow(spec, broker)

    def own_loop() -> object:
        return asyncio.run(start_workflow_async(spec, broker))

    with ThreadPoolExecutor(8) as threads:
        started = [threads.submit(start) for start in [blocking, own_loop] * 8]
        results = await asyncio.gather(*map(asyncio.wrap_future, started))
    assert all(isinstance(result, Ok) for result in [*results, blocking()])
    assert await connection.fetchval("SELECT count(*) FROM horsies_workflows") == 17


def test_a_workflow_without_a_broker_is_not_started() -> None:
    error = start_workflow(Spec(DIAMOND, None), None, "w-1").unwrap_err()
    assert (error.code, error.workflow_id) == (WorkflowStartErrorCode.BROKER_NOT_CONFIGURED, "w-1")
    assert "app.workflow(...)" in error.message


async def test_a_broker_that_cannot_be_made_is_an_error_and_not_an_exception() -> None:
    spec = Spec(DIAMOND, ConfigurationError("no threads", code=ErrorCode.BROKER_INIT_FAILED))
    for answer in (drive_blocking(starting_own(spec, None)), await drive_awaited(starting_own(spec, None))):
        assert answer.unwrap_err().code is WorkflowStartErrorCode.BROKER_NOT_CONFIGURED
        assert answer.unwrap_err().exception is spec.own
        assert answer.unwrap_err().workflow_id


@pytest.mark.parametrize(
    ("workflow_id", "words"),
    [
        *((each, "1 to 36 characters") for each in ("", "x" * 37, 3)),
        *(
            (each, "cannot be printed or stored; make one of any text with uuid.uuid5")
            for each in ("a\0b", "a\nb", "a\u2028")
        ),
    ],
)
def test_an_id_that_is_no_name_or_does_not_fit_its_column_is_refused(
    away: PostgresBroker, workflow_id: Any, words: str
) -> None:
    error = start_workflow(Spec(DIAMOND, away), away, workflow_id).unwrap_err()
    assert error.code is WorkflowStartErrorCode.VALIDATION_FAILED
    assert words in error.message


def test_a_time_without_a_zone_is_refused(away: PostgresBroker) -> None:
    error = start_workflow(Spec(DIAMOND, away), away, sent_at=SENT.replace(tzinfo=None)).unwrap_err()
    assert error.code is WorkflowStartErrorCode.VALIDATION_FAILED
    assert "has no time zone" in error.message


def test_a_plan_that_cannot_be_made_says_why(away: PostgresBroker) -> None:
    broken = WorkflowValidationError(
        "no queue", code=ErrorCode.WORKFLOW_UNRESOLVED_QUEUE, help_text="use app.workflow()"
    )
    for cause, words in ((broken, "no queue; use app.workflow()"), (CodecError("kwargs", "a set"), "a set")):
        error = start_workflow(Spec(DIAMOND, away, error=cause), away).unwrap_err()
        assert (error.code, error.exception) == (WorkflowStartErrorCode.VALIDATION_FAILED, cause)
        assert words in error.message


def test_a_sub_workflow_needs_the_broker_of_an_application(away: PostgresBroker) -> None:
    child = plan(node(0, sub_definition_key="child.v1"))
    error = start_workflow(Spec(child, away), away).unwrap_err()
    assert error.code is WorkflowStartErrorCode.VALIDATION_FAILED
    assert isinstance(error.exception, WorkflowValidationError)
    assert error.exception.code is ErrorCode.WORKFLOW_SUBWORKFLOW_APP_MISSING
    mapped = plan(node(0, sub_definition_key="__horsies_map__"))
    assert start_workflow(Spec(mapped, away), away).unwrap_err().code is WorkflowStartErrorCode.ENQUEUE_FAILED


async def test_a_start_while_the_database_is_away_is_repeated_under_its_id(
    connection: asyncpg.Connection, away: PostgresBroker, broker: PostgresBroker
) -> None:
    error = start_workflow(Spec(DIAMOND, away), away).unwrap_err()
    assert (error.code, error.retryable) == (WorkflowStartErrorCode.ENQUEUE_FAILED, True)
    assert error.exception is not None
    handle = drive_blocking(starting_again(Spec(DIAMOND, broker), error)).unwrap()
    again = (await drive_awaited(starting_again(Spec(DIAMOND, broker), error))).unwrap()
    assert handle.workflow_id == again.workflow_id == error.workflow_id
    assert await connection.fetchval("SELECT count(*) FROM horsies_workflows") == 1


async def test_only_a_start_that_may_succeed_is_repeated(away: PostgresBroker) -> None:
    refused = start_workflow(Spec(DIAMOND, away), away, "").unwrap_err()
    failed = start_workflow(Spec(DIAMOND, away), away).unwrap_err()
    other = Spec(plan(node(0), name="other"), away)
    for answer in (
        drive_blocking(starting_again(Spec(DIAMOND, away), refused)),
        drive_blocking(starting_again(other, failed)),
        await drive_awaited(starting_again(other, failed)),
    ):
        assert isinstance(answer, Err)
        assert answer.err_value.code is WorkflowStartErrorCode.VALIDATION_FAILED


@pytest.mark.parametrize(("by_spec", "by_call"), [(True, False), (False, True)])
async def test_a_start_waits_for_a_database_that_comes_back(
    connection: asyncpg.Connection, broker: PostgresBroker, *, by_spec: bool, by_call: bool
) -> None:
    spec = Spec(DIAMOND, broker, resend_on_transient_err=by_spec)
    await connection.execute(
        """CREATE SEQUENCE attempts;
        CREATE FUNCTION refuse_twice() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            IF nextval('attempts') <= 2 THEN RAISE EXCEPTION 'no room' USING ERRCODE = 'too_many_connections'; END IF;
            RETURN NEW;
        END $$;
        CREATE TRIGGER refuse BEFORE INSERT ON horsies_workflows FOR EACH ROW EXECUTE FUNCTION refuse_twice()"""
    )
    started = await start_workflow_async(spec, broker, "w-1", resend_on_transient_err=by_call)
    assert isinstance(started, Ok)
    assert await connection.fetchval("SELECT last_value FROM attempts") == 3


async def test_a_thousand_nodes_are_stored_at_once(connection: asyncpg.Connection, broker: PostgresBroker) -> None:
    wide = plan(*(node(index) for index in range(500)), *(node(500 + index, index) for index in range(500)))
    start_workflow(Spec(wide, broker), broker).unwrap()
    counted = "SELECT status, count(*) FROM horsies_workflow_tasks GROUP BY status"
    assert dict(await connection.fetch(counted)) == {"ENQUEUED": 500, "PENDING": 500}
