"""Operations on many rows: in batches, to the end of a batch when interrupted, with an exact account of the changes."""

from __future__ import annotations

import asyncio
from collections import Counter

import asyncpg
import pytest
from lifecycle_steps import enqueue, running, statuses, waits_for_a_lock
from operation_steps import OPS, act, audit, look, named, undo
from sweep_steps import poison

from horsies.operations.audit_rows import require_writable
from horsies.operations.pipeline import apply, preview
from horsies.operations.selection import MOST_ROWS, Selection
from horsies.operations.target import OperationError
from horsies.operations.verb import OperationOutcome
from horsies.query import FilterError

V = named("task")


async def many(conn: asyncpg.Connection, count: int) -> list[str]:
    names = [f"t{number:06}" for number in range(count)]
    await enqueue(conn, *names)
    return names


def applied(outcome: OperationOutcome) -> list[str]:
    return [row.target.id for row in outcome.applied]


async def cancelled(conn: asyncpg.Connection) -> list[str]:
    return sorted(task_id for task_id, status in (await statuses(conn)).items() if status == "CANCELLED")


async def test_five_thousand_rows_go_in_batches_and_each_has_its_trace(connection: asyncpg.Connection) -> None:
    names = await many(connection, 5_000)
    seen = await look(connection, V.CANCEL, *names)
    steps: list[tuple[int, int]] = []
    outcome = await apply(connection, seen, OPS, None, on_progress=lambda done, of: steps.append((done, of)))
    assert applied(outcome) == names == await cancelled(connection)
    assert steps == [(done, 5_000) for done in range(500, 5_001, 500)]
    rows = await audit(connection)
    assert Counter(row["target_id"] for row in rows) == Counter(names)
    assert {row["operation_id"] for row in rows} == {outcome.operation_id}
    assert len({row["acted_at"] for row in rows}) == 10
    undone = await undo(connection, outcome.operation_id, OPS, None)
    assert len(undone.applied) == 5_000


async def test_an_operation_that_is_cancelled_ends_its_batch_and_tells_the_truth(
    connection: asyncpg.Connection,
) -> None:
    names = await many(connection, 50)
    seen = await look(connection, V.CANCEL, *names)
    working: list[asyncio.Task[OperationOutcome]] = []

    def cancel_after_two(done: int, _of: int) -> None:
        if done == 20:
            asyncio.get_running_loop().call_soon(working[0].cancel)

    working.append(asyncio.create_task(apply(connection, seen, OPS, None, on_progress=cancel_after_two, batch=10)))
    outcome = await working[0]
    assert outcome.stopped == "interrupted"
    assert applied(outcome) == names[:30] == await cancelled(connection)
    assert [target.id for target in outcome.not_attempted] == names[30:]
    assert len(await audit(connection)) == 30


async def test_an_interrupt_from_the_keyboard_between_batches_tells_the_truth(connection: asyncpg.Connection) -> None:
    names = await many(connection, 50)

    def interrupt(done: int, _of: int) -> None:
        if done == 20:
            raise KeyboardInterrupt

    outcome = await apply(
        connection, await look(connection, V.CANCEL, *names), OPS, None, on_progress=interrupt, batch=10
    )
    assert (outcome.stopped, applied(outcome)) == ("interrupted", names[:20])
    assert [target.id for target in outcome.not_attempted] == names[20:]
    assert await cancelled(connection) == names[:20]


async def test_an_interrupt_in_the_last_batch_has_interrupted_nothing(connection: asyncpg.Connection) -> None:
    names = await many(connection, 10)

    def interrupt(_done: int, _of: int) -> None:
        raise KeyboardInterrupt

    outcome = await apply(connection, await look(connection, V.CANCEL, *names), OPS, None, on_progress=interrupt)
    assert (outcome.stopped, len(outcome.applied), outcome.not_attempted) == (None, 10, ())


async def test_cancelled_twice_it_breaks_off_and_the_database_has_all_or_nothing_of_the_batch(
    connection: asyncpg.Connection, database: str
) -> None:
    await many(connection, 5)
    seen = await look(connection, V.CANCEL, *[f"t{number:06}" for number in range(5)])
    blocker, observer = await asyncpg.connect(database), await asyncpg.connect(database)
    blocking = blocker.transaction()
    await blocking.start()
    await blocker.execute("SELECT FROM horsies_tasks FOR UPDATE")
    working = await waits_for_a_lock(observer, connection, apply(connection, seen, OPS, None))
    working.cancel()
    await asyncio.sleep(0)
    working.cancel()
    with pytest.raises(asyncio.CancelledError):
        await working
    await blocking.rollback()
    assert await cancelled(observer) == []
    assert await audit(observer) == []
    await blocker.close()
    await observer.close()


async def test_one_row_that_the_database_will_not_have_costs_the_others_nothing(connection: asyncpg.Connection) -> None:
    names = await many(connection, 20)
    await poison(connection, "horsies_tasks", "UPDATE", "t000007")
    outcome = await act(connection, V.CANCEL, *names)
    assert [row.target.id for row in outcome.refused] == ["t000007"]
    assert "row t000007 is poison" in outcome.refused[0].detail
    assert await cancelled(connection) == [name for name in names if name != "t000007"]
    assert len(await audit(connection)) == 19


async def test_a_row_that_is_locked_too_long_is_refused_and_the_others_are_changed(
    connection: asyncpg.Connection, other: asyncpg.Connection
) -> None:
    names = await many(connection, 5)
    seen = await look(connection, V.CANCEL, *names)
    blocking = other.transaction()
    await blocking.start()
    await other.execute("SELECT FROM horsies_tasks WHERE id = 't000002' FOR UPDATE")
    await connection.execute("SET lock_timeout = '50ms'")
    outcome = await apply(connection, seen, OPS, None)
    await blocking.rollback()
    assert [row.target.id for row in outcome.refused] == ["t000002"]
    assert len(outcome.applied) == 4


async def test_a_connection_lost_on_the_way_is_told_with_what_was_done_and_what_is_in_doubt(
    connection: asyncpg.Connection, database: str
) -> None:
    names = await many(connection, 30)
    seen = await look(connection, V.CANCEL, *names)
    await connection.execute(
        "CREATE FUNCTION die() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NULL; END $$;"
        "CREATE TRIGGER die AFTER UPDATE ON horsies_tasks FOR EACH ROW WHEN (OLD.id = 't000015') EXECUTE FUNCTION die()"
    )
    victim = await asyncpg.connect(database)
    outcome = await apply(victim, seen, OPS, None, batch=10)
    assert applied(outcome) == names[:10] == await cancelled(connection)
    assert [target.id for target in outcome.in_doubt] == names[10:20]
    assert [target.id for target in outcome.not_attempted] == names[20:]
    assert outcome.stopped is not None
    assert len(await audit(connection)) == 10


async def test_a_read_only_session_is_refused_before_anything_is_tried(connection: asyncpg.Connection) -> None:
    await running(connection, "t")
    await connection.execute("SET default_transaction_read_only = on")
    seen = await look(connection, V.FAIL, "t")
    assert len(seen.eligible) == 1  # a preview is allowed
    for attempt in (apply(connection, seen, OPS, None), require_writable(connection)):
        with pytest.raises(OperationError, match="this session is read-only"):
            await attempt


async def test_the_grants_that_such_a_role_is_told_are_enough(connection: asyncpg.Connection, role: str) -> None:
    await running(connection, "t")
    await connection.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {role}; SET ROLE {role}")
    seen = await look(connection, V.FAIL, "t")
    with pytest.raises(OperationError, match=f"the role {role} lacks UPDATE ON horsies_tasks, ") as raised:
        await apply(connection, seen, OPS, None)
    advice = str(raised.value.help_text)
    grants = advice.removeprefix("as the owner of the tables: ").removesuffix("; or connect as another role")
    await connection.execute(f"RESET ROLE; {grants}; SET ROLE {role}")
    (done,) = (await apply(connection, seen, OPS, None)).applied
    assert done.target.id == "t"


async def test_tables_without_a_place_for_the_audit_ask_for_an_upgrade(connection: asyncpg.Connection) -> None:
    await running(connection, "t")
    seen = await look(connection, V.FAIL, "t")
    await connection.execute("DROP TABLE horsies_operator_actions")
    with pytest.raises(OperationError) as raised:
        await apply(connection, seen, OPS, None)
    assert raised.value.help_text == "run `horsies db upgrade`"


async def test_inside_the_callers_transaction_nothing_is_done(connection: asyncpg.Connection) -> None:
    await running(connection, "t")
    seen = await look(connection, V.FAIL, "t")
    async with connection.transaction():
        with pytest.raises(OperationError, match="inside a transaction"):
            await apply(connection, seen, OPS, None)
    assert await statuses(connection) == {"t": "RUNNING"}


async def test_a_filter_is_frozen_to_the_rows_that_match_at_the_preview(connection: asyncpg.Connection) -> None:
    await enqueue(connection, "a", "b", queue_name="'mail'")
    await enqueue(connection, "c")
    seen = await preview(connection, V.CANCEL, Selection.of_filter("queue:mail  status:pending"))
    await enqueue(connection, "d", queue_name="'mail'")
    outcome = await apply(connection, seen, OPS, "flood")
    assert applied(outcome) == ["a", "b"]
    assert {row["filter"] for row in await audit(connection)} == {seen.filter}
    assert seen.filter is not None
    assert "queue:mail" in seen.filter
    assert seen.command.startswith("horsies tasks cancel --filter '")


async def test_a_filter_with_a_typo_is_refused_where_it_is_wrong(connection: asyncpg.Connection) -> None:
    with pytest.raises(FilterError) as raised:
        await preview(connection, V.CANCEL, Selection.of_filter("stauts:failed"))
    assert raised.value.problems[0].start == 0


async def test_more_rows_than_one_operation_takes_are_refused(connection: asyncpg.Connection) -> None:
    with pytest.raises(OperationError, match="100,000"):
        await preview(connection, V.CANCEL, Selection.of_ids(map(str, range(MOST_ROWS + 1))))


def test_an_id_named_twice_is_meant_once() -> None:
    assert Selection.of_ids(["b", "a", "b"]).ids == ("b", "a")
