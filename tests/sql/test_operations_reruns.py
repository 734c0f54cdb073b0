"""A rerun is a new send with its own fingerprint; edited arguments are validated before they are stored."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from typing import Any

import asyncpg
import pytest
from hypothesis import given, settings, strategies as st
from lifecycle_steps import claim_some, enqueue, everything, task
from operation_steps import OPS, POLICY, audit, completed, done, failed, look, named

from horsies.domain.codec import dump_args, dump_kwargs
from horsies.domain.ids import enqueue_sha
from horsies.operations.edited import Arguments, checked, policy_retries
from horsies.operations.pipeline import apply
from horsies.operations.target import Actor, OperationError

V = named("task")


async def copy_of(conn: asyncpg.Connection, original: str) -> dict[str, Any]:
    return dict(await conn.fetchrow("SELECT * FROM horsies_tasks WHERE rerun_of = $1", original))


def fingerprint(row: dict[str, Any]) -> str:
    return enqueue_sha(
        task_name=row["task_name"],
        queue_name=row["queue_name"],
        priority=row["priority"],
        args_json=row["args"],
        kwargs_json=row["kwargs"],
        sent_at=row["sent_at"],
        good_until=row["good_until"],
        task_options=row["task_options"],
    )


async def test_a_rerun_is_a_new_task_like_the_old_one(connection: asyncpg.Connection) -> None:
    await failed(
        connection, "t", args="'[1,\"ä\"]'", kwargs="""'{"a":{"b":null}}'""", priority="7", max_retries="3",
        task_options=f"'{POLICY}'", good_until="now() + interval '1 h'",
    )  # fmt: skip
    before = await task(connection, "t")
    outcome = await done(connection, V.RERUN, "t")
    assert await task(connection, "t") == before
    copy = await copy_of(connection, "t")
    same = ("task_name", "queue_name", "priority", "args", "kwargs", "task_options", "good_until", "max_retries")
    assert [copy[name] for name in same] == [before[name] for name in same]
    assert (copy["status"], copy["retry_count"], copy["is_workflow_task"]) == ("PENDING", 0, False)
    assert copy["enqueue_sha"] == fingerprint(copy) != before["enqueue_sha"]
    assert copy["sent_at"] >= before["created_at"]
    (row,) = outcome.applied
    assert (row.new_id, row.detail) == (copy["id"], f"runs again as {copy['id']}")
    (trace,) = await audit(connection)
    assert (trace["target_id"], trace["after_state"]) == ("t", {"new_task_id": copy["id"]})
    assert [claimed.token.task_id for claimed in await claim_some(connection)] == [copy["id"]]


async def test_a_deadline_that_has_passed_is_not_the_copys(connection: asyncpg.Connection) -> None:
    options = '{"retry_policy":null,"good_until":"2020-01-01T00:00:00+00:00"}'
    await enqueue(connection, "t", status="'EXPIRED'", good_until="now() - interval '1 h'", task_options=f"'{options}'")
    await done(connection, V.RERUN, "t")
    copy = await copy_of(connection, "t")
    assert (copy["good_until"], copy["task_options"]) == (None, '{"retry_policy":null,"good_until":null}')
    assert copy["enqueue_sha"] == fingerprint(copy)


async def test_options_that_cannot_be_read_are_copied_as_they_stand(connection: asyncpg.Connection) -> None:
    await enqueue(connection, "t", status="'FAILED'", task_options="'{'")
    await done(connection, V.RERUN, "t")
    copy = await copy_of(connection, "t")
    assert (copy["task_options"], copy["max_retries"]) == ("{", 0)


async def test_edited_arguments_take_the_place_of_the_old_ones(connection: asyncpg.Connection) -> None:
    await failed(connection, "t", args="'[1]'", kwargs="""'{"a":1}'""")
    seen = await look(connection, V.RERUN, "t", kwargs=' { "a" : [ 2, "ü" ] } ')
    await apply(connection, seen, OPS, None)
    copy = await copy_of(connection, "t")
    assert (copy["args"], copy["kwargs"]) == ("[1]", '{"a":[2,"ü"]}')
    assert copy["enqueue_sha"] == fingerprint(copy)


async def test_emptied_arguments_are_null_as_those_of_a_send_without_any(connection: asyncpg.Connection) -> None:
    await failed(connection, "t", args="'[1]'", kwargs="""'{"a":1}'""")
    await done(connection, V.RERUN, "t", args="[]", kwargs="{}")
    copy = await copy_of(connection, "t")
    assert (copy["args"], copy["kwargs"]) == (None, None)


@pytest.mark.parametrize(
    ("args", "kwargs", "words"),
    [
        ("[1,", None, "args: not valid JSON: .* line 1 column 4"),
        ("{}", None, "args: must be a JSON array"),
        (None, "[]", "kwargs: must be a JSON object"),
        ("[NaN]", None, "NaN is not JSON"),
        (None, '{"a":{"b":["\\ud800"]}}', r"kwargs.a.b\[0\]: contains a lone surrogate"),
        (None, '{"\\udfff":1}', "lone surrogate"),
        ("[" + "9" * 4250 + "]", None, r"args\[0\]: has more than 4,214 digits"),
        ("[" * 200 + "]" * 200, None, "nested too deeply"),
        ("[" * 100_000 + "]" * 100_000, None, "args: not valid JSON"),
        ('[{"__datetime__":true,"value":"tomorrow"}]', None, r"args\[0\]: is not a date or time"),
        ('[{"__date__":true}]', None, r"args\[0\]: is not a date or time"),
        ('[{"__pydantic_model__":true,"module":"m"}]', None, r"args\[0\]: is tagged as an object"),
    ],
)  # fmt: skip
def test_arguments_that_a_worker_could_not_read_are_refused_where_they_are_wrong(
    args: str | None, kwargs: str | None, words: str
) -> None:
    with pytest.raises(OperationError, match=words):
        checked(Arguments(args, kwargs))


class Witness:
    """Counts its instances."""

    made = 0

    def __init__(self) -> None:
        Witness.made += 1


def test_no_class_that_the_arguments_name_is_loaded() -> None:
    text = json.dumps([{"__dataclass__": True, "module": __name__, "qualname": "Witness", "data": {}}])
    assert checked(Arguments(text)).args is not None
    assert Witness.made == 0


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text("aé\n'\"\\"),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(st.text("ab", max_size=3), children, max_size=3),
    max_leaves=8,
)


@settings(max_examples=100)
@given(args=st.lists(JSON, max_size=3), kwargs=st.dictionaries(st.text("abc", max_size=3), JSON, max_size=3))
def test_whatever_was_stored_by_a_send_passes_unchanged(args: list[Any], kwargs: dict[str, Any]) -> None:
    stored = Arguments(dump_args(args), dump_kwargs(kwargs))
    assert checked(stored) == stored


def test_moments_pass() -> None:
    stored = Arguments(dump_args([datetime(2026, 1, 2, tzinfo=UTC)]))
    assert checked(stored) == stored


async def test_edited_arguments_fit_one_task_only(connection: asyncpg.Connection) -> None:
    await failed(connection, "a", "b")
    with pytest.raises(OperationError, match="apply to exactly one task"):
        await look(connection, V.RERUN, "a", "b", args="[]")


async def test_of_two_operators_who_rerun_the_same_rows_one_does(
    connection: asyncpg.Connection, other: asyncpg.Connection
) -> None:
    names = [f"t{number:02}" for number in range(40)]
    await failed(connection, *names)
    mine, theirs = await look(connection, V.RERUN, *names), await look(other, V.RERUN, *names)
    outcomes = await asyncio.gather(
        apply(connection, mine, Actor("ann", "a"), None, batch=7),
        apply(other, theirs, Actor("bob", "b"), None, batch=9),
    )
    assert await connection.fetchval("SELECT count(*) FROM horsies_tasks WHERE rerun_of IS NOT NULL") == len(names)
    assert sum(len(outcome.applied) for outcome in outcomes) == len(names)
    refused = {row.detail for outcome in outcomes for row in outcome.refused}
    assert refused <= {f"an operator has acted on it since the preview: rerun by {who}" for who in ("ann@a", "bob@b")}
    assert refused


async def test_a_second_rerun_after_a_second_look_makes_a_second_copy(connection: asyncpg.Connection) -> None:
    await completed(connection, "t")
    await done(connection, V.RERUN, "t")
    await done(connection, V.RERUN, "t")
    assert await connection.fetchval("SELECT count(*) FROM horsies_tasks WHERE rerun_of = 't'") == 2


async def test_a_copy_keeps_the_unique_key_while_it_is_free(connection: asyncpg.Connection) -> None:
    await failed(connection, "t", unique_key="'k'")
    await done(connection, V.RERUN, "t")
    assert (await copy_of(connection, "t"))["unique_key"] == "k"


async def test_a_rerun_that_breaks_off_between_its_statements_leaves_nothing(
    connection: asyncpg.Connection, database: str
) -> None:
    await failed(connection, "t")
    seen = await look(connection, V.RERUN, "t")
    await connection.execute(
        "CREATE FUNCTION die() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NULL; END $$;"
        "CREATE TRIGGER die AFTER INSERT ON horsies_operator_actions FOR EACH ROW EXECUTE FUNCTION die()"
    )
    victim, observer = await asyncpg.connect(database), await asyncpg.connect(database)
    before = await everything(observer)
    outcome = await apply(victim, seen, OPS, None)
    assert [target.id for target in outcome.in_doubt] == ["t"]
    assert outcome.stopped is not None
    assert await everything(observer) == before
    assert await audit(observer) == []
    await observer.close()


def test_what_a_policy_grants_is_read_as_a_worker_reads_it() -> None:
    assert [policy_retries(text) for text in (POLICY, None, "{", "[]", '{"retry_policy":null}')] == [3, 0, 0, 0, 0]
