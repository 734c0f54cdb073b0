"""The statements of the operator verbs find rows by index, also in tables that have grown since their last ANALYZE."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from typing import Any
from uuid import uuid4

import asyncpg
import psycopg
import pytest
from database_server import DatabaseServer
from plan_steps import nodes
from statements import statement

from horsies.operations.task_targets import change_statement
from horsies.operations.undo import undo_statement
from horsies.operations.verb import TaskVerb
from horsies.operations.verbs import verbs_for
from horsies.store.statements import renumbered

ROWS = 30_000
BATCH = 100

# The statistics are older than the rows: autovacuum comes later than operators do.
FILL = f"""
ANALYZE;
INSERT INTO horsies_tasks (id, task_name, queue_name, status, claimed_by_worker_id, claimed_at, enqueued_at, started_at,
                           completed_at)
SELECT 't' || n, 'demo.old', 'default', 'COMPLETED', 'worker-a', now(), now(), now(), now()
  FROM generate_series(1, {ROWS}) n;
INSERT INTO horsies_task_attempts (task_id, attempt, outcome, started_at, finished_at)
SELECT id, 1, 'COMPLETED', started_at, completed_at FROM horsies_tasks;
INSERT INTO horsies_operator_actions (operation_id, verb, target_kind, target_id, outcome)
SELECT '{uuid4()}', 'requeue', 'task', id, 'applied' FROM horsies_tasks;
"""


def array(value: str) -> str:
    return f"array_fill({value}, ARRAY[{BATCH}])"


IDS = "ARRAY[" + ", ".join(f"'t{number}'" for number in range(BATCH)) + "]"
ACTIONS = "ARRAY[" + ", ".join(str(number) for number in range(BATCH)) + "]"
SEEN = (
    f"{IDS}, {array(chr(39) + 'COMPLETED' + chr(39) + '::text')}, {array('NULL::text')}, {array('now()')},"
    f" {array('0')}, {array('NULL::text')}, {array('NULL::bigint')}, ARRAY['COMPLETED']"
)
WHO = f"'{uuid4()}', 'verb', 'ops', 'bastion', 'why', NULL"
TEXTS, TIMES = array("'x'::text"), array("now()")

TASKS, ATTEMPTS = "horsies_tasks_pkey", "uq_horsies_task_attempts_task_attempt"
TRACE, TRACE_ID = "ix_horsies_operator_actions_target", "horsies_operator_actions_pkey"
KEYS = "uq_horsies_tasks_key_and_name"
NODES = {"all of horsies_workflow_tasks", "all of horsies_workflows"}
"""Empty in this test, and in most databases."""

COPIES = f"{', '.join([TEXTS] * 5)}, {array('0')}, {TIMES}, {TIMES}"
# The verb's parameters, and the indexes of its refusal; `None`: it has no refusal of its own.
VALUES: dict[str, tuple[str, set[str] | None]] = {
    "requeue": ("NULL::integer[]", {TASKS, KEYS}),
    "fail": ("'FAILED', 'r', 'c'", None),
    "cancel": ("'CANCELLED', 'r', 'c'", None),
    "expire": ("'EXPIRED', 'r', 'c'", {TASKS}),
    "retry-now": ("", {TASKS}),
    "release": ("", None),
    "rerun": (COPIES, {TASKS, TRACE, KEYS}),
    "reprioritise": ("7", {TASKS, TRACE}),
    "move": ("'bulk'", {TASKS, TRACE}),
    "reschedule": ("now()", {TASKS, TRACE}),
}
# For each other statement its arguments and the indexes of its plan.
STATEMENTS = {
    "op_see": (IDS, {TASKS}),
    "requeue_options": (IDS, {TASKS}),
    "rerun_sources": (IDS, {TASKS}),
    "task_last_actions": (IDS, {TRACE}),
}


@pytest.fixture(scope="module")
def grown_database(server: DatabaseServer) -> Iterator[str]:
    """One for all tests, which execute nothing: they only ask for plans."""
    with server.database() as url:
        with psycopg.connect(url, autocommit=True) as connection:
            for table in ("horsies_tasks", "horsies_task_attempts", "horsies_operator_actions"):
                connection.execute(f"ALTER TABLE {table} SET (autovacuum_enabled = off)".encode())
            connection.execute(FILL.encode())
        yield url


@pytest.fixture
async def grown(grown_database: str) -> AsyncIterator[asyncpg.Connection]:
    connected = await asyncpg.connect(grown_database)
    await connected.execute(statement("op_begin").replace("true)", "false)"))
    yield connected
    await connected.close()


def indexes(plan: dict[str, Any]) -> set[str]:
    """The indexes of the plan; a sequential scan stands for itself."""
    steps = list(nodes(plan))
    whole = {f"all of {step['Relation Name']}" for step in steps if step["Node Type"] == "Seq Scan"}
    return whole | {step["Index Name"] for step in steps if "Index Name" in step}


async def indexes_of(conn: asyncpg.Connection, name: str, text: str, arguments: str) -> set[str]:
    await conn.execute(f"PREPARE {name} AS {text}")
    plan = await conn.fetchval(f"EXPLAIN (FORMAT JSON) EXECUTE {name} ({arguments})")
    return indexes(json.loads(plan)[0]["Plan"]) - NODES


async def test_every_statement_of_the_verbs_reads_what_it_is_about(grown: asyncpg.Connection) -> None:
    found = {name: await indexes_of(grown, name, statement(name), asked) for name, (asked, _) in STATEMENTS.items()}
    assert found == {name: expected for name, (_, expected) in STATEMENTS.items()}


@pytest.mark.parametrize("verb", verbs_for("task"), ids=str)
async def test_a_verb_reads_its_tasks_their_attempts_and_what_it_is_guarded_by(
    grown: asyncpg.Connection, verb: TaskVerb
) -> None:
    values, of_refusal = VALUES.get(verb.name, ("", {TASKS} if verb.refuses else None))
    arguments = ", ".join([WHO, SEEN, *([] if verb.statement else ["'code', 'words'"]), *filter(None, [values])])
    read = {TASKS, ATTEMPTS} | (of_refusal or set())
    assert await indexes_of(grown, "change", change_statement(verb), arguments) == read
    if of_refusal is not None:
        asked = IDS if verb.gives is None else f"{IDS}, {values}"
        assert verb.refuses is not None
        refusals = statement("task_refusals", refusal=renumbered(statement(verb.refuses[1]), by=-15))
        assert await indexes_of(grown, "refusals", refusals, asked) == of_refusal


async def test_an_undo_reads_its_audit_rows_and_their_tasks(grown: asyncpg.Connection) -> None:
    asked = f"{ACTIONS}, {IDS}"
    for name, arguments in (("undo_tasks", f"{WHO}, {asked}"), ("undo_preview", asked), ("undo_hold", f"{asked}, 30")):
        found = await indexes_of(grown, name, undo_statement(name), arguments)
        assert found == {TASKS, TRACE, TRACE_ID, KEYS}
    times = "ARRAY[now()]"
    assert await indexes_of(grown, "undo_release", statement("undo_release"), f"{IDS}, {times}, {times}") == {TASKS}
