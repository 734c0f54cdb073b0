"""A role that may only CREATE in our schema makes functions and operators that fit our calls: none of them ever runs.

PUBLIC may CREATE in `public` by default up to PostgreSQL 14, and after a pg_upgrade from there.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import asyncpg
import psycopg
import pytest
from statements import statements
from test_migrations_adoption import VERSION_13

import horsies
from horsies import AppConfig, Horsies, PostgresConfig, TaskError, TaskNode, TaskResult
from horsies.store.schema import SchemaError, create, upgrade
from horsies.store.statements import qualified, statement

MAY_CREATE = "GRANT CREATE ON SCHEMA public TO PUBLIC"

# What fits a call of ours better than the parameter of PostgreSQL's function.
BETTER = {
    "text": ("character varying",),
    '"any"': ("character varying", "text", "integer", "timestamp with time zone"),
    "anyelement": ("character varying", "text", "integer", "timestamp with time zone"),
    "anynonarray": ("character varying", "text", "integer", "tid"),
    "anyarray": ("text[]", "character varying[]", "integer[]", "tid[]"),
    "anyrange": ("tstzrange",),
    "anymultirange": ("tstzmultirange",),
    "double precision": ("integer", "text"),
    "bigint": ("integer",),
    "regclass": ("text", "oid"),
}

SIGNATURES = """
SELECT DISTINCT proname::text, ARRAY(SELECT format_type(kind, NULL) FROM unnest(proargtypes) AS kind) AS kinds
  FROM pg_proc
 WHERE pronargs BETWEEN 1 AND 8
   AND (pronamespace = 'pg_catalog'::regnamespace AND proname = ANY ($1::text[])
        OR pronamespace = 'public'::regnamespace AND proname LIKE 'horsies\\_%' AND prorettype <> 'trigger'::regtype)
"""

OPERATORS = """
SELECT 'CREATE OPERATOR ' || name || ' (LEFTARG = ' || a || ', RIGHTARG = ' || b || ', FUNCTION = public.hostile)'
  FROM unnest('{=,<>,<,<=,>,>=,||,+,-,*,/,->,->>,&&,~~}'::text[]) AS name,
       unnest($1::text[]) AS a, unnest($1::text[]) AS b
 WHERE NOT EXISTS (SELECT FROM pg_operator WHERE oprname = name AND oprleft = a::regtype AND oprright = b::regtype)
"""
TYPES = (
    *("character varying", "text", "integer", "bigint", "double precision", "numeric", "interval", "jsonb", "name"),
    *("timestamp with time zone", "text[]", "character varying[]", "integer[]", "tstzmultirange", "boolean"),
)


def trap(name: str, kinds: Iterable[str]) -> str:
    """A function that fails where it is called, and that nobody else may call."""
    signature = f"public.{name}({', '.join(kinds)})"
    return (
        f"CREATE FUNCTION {signature} RETURNS boolean LANGUAGE plpgsql AS"
        f" 'BEGIN RAISE EXCEPTION ''{signature} was called''; END';"
        f" REVOKE ALL ON FUNCTION {signature} FROM PUBLIC;"
    )


def better(kinds: list[str]) -> Iterator[tuple[str, ...]]:
    """Signatures that differ: each parameter in its better types, all of the same kind alike or one by one."""
    choices = [(kind, *BETTER.get(kind, ())) for kind in kinds]
    for width in range(1, 1 + max(map(len, choices))):
        yield tuple(choice[min(width, len(choice) - 1)] for choice in choices)
    if len(kinds) < 4:
        yield from itertools.product(*choices)


def called() -> set[str]:
    """Names that our statements call."""
    return set(re.findall(r"\b([a-z]\w*)\(", "\n".join(statements().values())))


async def set_traps(connection: asyncpg.Connection, role: str, *, operators: bool) -> None:
    """As the role: a function for each of those that we call, and an operator for each pair of types without one."""
    await connection.execute(f"{MAY_CREATE}; SET ROLE {role}")
    rows = await connection.fetch(SIGNATURES, called())
    theirs = {(name, tuple(kinds)) for name, kinds in rows}
    mine = {(name, kinds) for name, given in rows for kinds in better(given) if '"any"' not in kinds} - theirs
    assert len(mine) > 200
    await connection.execute("".join(trap(name, kinds) for name, kinds in sorted(mine)))
    if operators:
        await connection.execute("".join(trap("hostile", pair) for pair in itertools.product(TYPES, repeat=2)))
        made = await connection.fetch(qualified(OPERATORS), TYPES)
        await connection.execute("; ".join(row[0] for row in made))
    await connection.execute("RESET ROLE")


@pytest.fixture
async def trapped(connection: asyncpg.Connection, role: str) -> asyncpg.Connection:
    """A superuser's connection to a database with traps for functions and operators."""
    await set_traps(connection, role, operators=True)
    return connection


OF_EVERY_WRITE = ("horsies_notify_task_changes", "horsies_notify_task_status")
"""They name all with its schema instead, for speed; the test above runs them."""

# Reads and writes that end in each trigger and each function of the schema. Texts are compared as text here, too.
EVERYTHING = """
INSERT INTO horsies_queue_state (queue_name) VALUES ('other');
INSERT INTO horsies_workflows (id, name, status) VALUES ('w', 'ship', 'RUNNING');
INSERT INTO horsies_tasks (id, task_name, queue_name, is_workflow_task, good_until)
SELECT 't'::text || number::text, 'shop.pay', 'q', number > 3,
       CASE WHEN number > 40::bigint THEN now() + interval '1 h' END
  FROM pg_catalog.generate_series(1::bigint, 80::bigint) AS number;
INSERT INTO horsies_workflow_tasks (id, workflow_id, task_index, task_name, status, task_id)
SELECT 'n'::text || number::text, 'w', number, 'shop.pay', 'ENQUEUED', 't'::text || number::text
  FROM pg_catalog.generate_series(4, 6) AS number;
INSERT INTO horsies_worker_states (worker_id, hostname, pid, processes, max_claim_batch, max_claim_per_worker, queues,
                                   worker_started_at, recovery_config)
VALUES ('worker', 'host', 1, 1, 1, 1, '{}', now(),
        '{"running_stale_threshold_ms": 900000, "runner_heartbeat_interval_ms": 30000}');
UPDATE horsies_workflows SET status = 'PAUSED';
UPDATE horsies_tasks SET status = 'RUNNING' WHERE id::text = 't4';
UPDATE horsies_tasks SET status = 'PENDING' WHERE id::text = 't4';
SELECT FROM horsies_claimable('q'::text, '{shop.pay}'::text[], 2);
SELECT FROM horsies_claimable('q'::text, NULL::text[], 200);
SELECT FROM horsies_ready_by_name('q'::text, '{shop.pay}'::text[], 60);
SELECT FROM horsies_ready_until('q'::text, '{shop.pay}'::text[], 60);
-- Only the last ones may run, so the search is by name and priority.
INSERT INTO horsies_tasks (id, task_name, queue_name, priority, enqueued_at, good_until)
SELECT 'd'::text || number::text, 'shop.ship', 'deep', number / 100 + 1,
       CASE WHEN number % 100 < 95 THEN now() + interval '1 h' ELSE now() END,
       CASE WHEN number % 2 = 0 THEN now() + interval '2 h' END
  FROM pg_catalog.generate_series(1, 400) AS number;
SELECT FROM horsies_claimable('deep'::text, NULL::text[], 20);
SELECT FROM horsies_claim_capped('worker'::text, '{q}'::text[], '{4}'::integer[], 2, 3, true, interval '-1 s',
                                 NULL::text[]);
SELECT FROM horsies_claim_capped('worker'::text, '{q}'::text[], '{4}'::integer[], 4, 3, false, interval '1 h',
                                 NULL::text[]);
SELECT FROM horsies_room_to_run('{t1,t2,t3}'::text[], '{q}'::text[], '{q}'::text[], '{2}'::integer[]);
SELECT FROM horsies_release_places(NULL::text, now());
UPDATE horsies_tasks SET status = 'COMPLETED' WHERE id::text = 't1';
SELECT horsies_pulse(1000::float8, interval '1 min', true);
UPDATE horsies_pulse SET beaten_at = beaten_at - interval '10 min';
SELECT horsies_runs_silent_before('worker'::text, 300000::float8, 30000::float8);
SELECT horsies_pulse(1000::float8, interval '1 min', true);
SELECT horsies_silent_before(300000::float8, 30000::float8), horsies_spare_period(30000::float8);
INSERT INTO horsies_operator_actions (operation_id, verb, target_kind, target_id, outcome)
VALUES (gen_random_uuid(), 'requeue', 'task', 't1', 'applied');
DELETE FROM horsies_workflows;
"""


async def test_no_function_or_trigger_of_the_schema_calls_what_another_role_made(trapped: asyncpg.Connection) -> None:
    with pytest.raises(asyncpg.RaiseError, match=r"pg_notify\(text, character varying\) was called"):
        await trapped.execute("SELECT pg_notify('task_new', 't'::varchar)")
    with pytest.raises(asyncpg.RaiseError, match="was called"):
        await trapped.execute("SELECT 'a'::varchar = 'a'::varchar")
    for step in filter(str.strip, EVERYTHING.split(";\n")):
        await trapped.execute(step)


def add(number: int) -> TaskResult[int, TaskError]:
    return TaskResult(ok=number)


async def test_a_send_and_a_start_of_a_superuser_call_nothing_that_another_role_made(
    trapped: asyncpg.Connection, database: str
) -> None:
    app = Horsies(AppConfig(broker=PostgresConfig(database_url=database)))
    task = app.task("add", add)
    first = TaskNode(task, kwargs={"number": 1}, node_id="first")
    nodes = [first, TaskNode(task, kwargs={"number": 2}, waits_for=[first], node_id="then")]

    def use(connection: psycopg.Connection) -> None:
        keyed = task.with_options(connection=connection, unique_key="order 7")
        assert keyed.send(1).unwrap().task_id == keyed.send(1).unwrap().task_id
        for sent in app.send_many([task.to_send(2), task.to_send(3)], connection=connection):
            sent.unwrap()
        for _ in range(2):
            app.workflow("ship", nodes, definition_key="ship.v1").start("w", connection=connection).unwrap()

    with psycopg.connect(database) as connection:
        use(connection)
    app.get_broker().close()
    with pytest.raises(asyncpg.RaiseError, match="was called"):
        await trapped.fetchval("SELECT count(*) FROM horsies_tasks WHERE task_name = 'add'")
    assert await trapped.fetchval("SELECT count(*) FROM horsies_tasks WHERE task_name::text = 'add'") == 4


@pytest.mark.parametrize("upgraded", [False, True], ids=["new", "upgraded"])
async def test_every_function_has_our_search_path_or_a_body_bound_to_names(
    empty_database: str, connection: asyncpg.Connection, *, upgraded: bool
) -> None:
    other = await asyncpg.connect(empty_database, server_settings={"search_path": '"Our ""own"'})
    try:
        await other.execute('CREATE SCHEMA "Our ""own"')
        await create(other)
        if upgraded:
            await other.execute(VERSION_13)
            await upgrade(other)
        rows = await other.fetch(
            "SELECT proname::text, prosqlbody IS NOT NULL AS bound, proconfig FROM pg_proc WHERE proname ~ '^horsies_'"
        )
        assert len(rows) > 15
        rows = [row for row in rows if row["proname"] not in OF_EVERY_WRITE]
        path = 'search_path=pg_catalog, "Our ""own", pg_temp'
        assert {row["proname"] for row in rows if not row["bound"] and path not in (row["proconfig"] or ())} == set()
        bound = {row["proname"] for row in rows if row["bound"]}
        expected = {"horsies_may_run", "horsies_harmless_gap", "horsies_longest_pause", "horsies_spare_period"}
        assert bound == expected
    finally:
        await other.close()


async def test_no_statement_calls_a_function_that_another_role_made(connection: asyncpg.Connection, role: str) -> None:
    """Each statement is planned for a role that may not execute the traps: where a plan has one, it is refused."""
    await connection.execute(
        "GRANT ALL ON ALL TABLES IN SCHEMA public TO pg_monitor; GRANT pg_monitor TO current_user;"
        "SET plan_cache_mode = force_generic_plan"
    )
    before = await refusals(connection)
    await set_traps(connection, role, operators=False)
    assert {name: why for name, why in (await refusals(connection)).items() if before.get(name) != why} == {}
    assert len(before) < len(statements()) / 2  # most are whole statements, and are planned


PARAMETERS = "SELECT cardinality(parameter_types) FROM pg_prepared_statements WHERE name = 'it'"


@pytest.mark.parametrize(
    ("made", "named"),
    [
        (
            "FUNCTION horsies_spare_period(varchar) RETURNS integer LANGUAGE sql AS 'SELECT 1'",
            "function",
        ),
        ("OPERATOR = (LEFTARG = varchar, RIGHTARG = varchar, FUNCTION = horsies_same)", "operator"),
    ],
    ids=["function", "operator"],
)
async def test_a_migration_is_refused_where_another_role_could_have_its_own_names_bound(
    empty_database: str, connection: asyncpg.Connection, role: str, made: str, named: str
) -> None:
    other = await asyncpg.connect(empty_database)
    try:
        same = "FUNCTION horsies_same(varchar, varchar) RETURNS boolean LANGUAGE sql AS 'SELECT true'"
        await other.execute(f"{MAY_CREATE}; SET ROLE {role}; CREATE {same}; CREATE {made}; RESET ROLE")
        if named == "operator":
            await other.execute("ALTER FUNCTION horsies_same OWNER TO CURRENT_USER")
        with pytest.raises(SchemaError, match=f"role {role} has created the {named}"):
            await create(other)
        await other.execute(f"DROP OWNED BY {role}")
        await create(other)
    finally:
        await other.close()


def as_sent() -> Iterator[tuple[str, str]]:
    """Each statement as the engine loads it."""
    folder = Path(horsies.__file__).parent
    for file in folder.rglob("*.sql"):
        module = ".".join(("horsies", *file.relative_to(folder).with_suffix("").parts))
        for name in re.findall(r"^-- name: (\w+)$", file.read_text("utf-8"), re.MULTILINE):
            yield name, statement(module, name)


async def refusals(connection: asyncpg.Connection) -> dict[str, str]:
    """Why statements cannot be planned, by their names: fragments, and those without rights."""
    found: dict[str, str] = {}
    await connection.execute("SET ROLE pg_monitor")
    for name, text in as_sent():
        try:
            await connection.execute(f"PREPARE it AS {text}")
        except asyncpg.PostgresError as error:
            found[name] = str(error)
            continue
        count = await connection.fetchval(qualified(PARAMETERS))
        try:
            await connection.execute(f"EXPLAIN EXECUTE it {'(' + ', '.join(['NULL'] * count) + ')' if count else ''}")
        except asyncpg.PostgresError as error:
            found[name] = str(error)
        await connection.execute("DEALLOCATE it")
    await connection.execute("RESET ROLE")
    return found
