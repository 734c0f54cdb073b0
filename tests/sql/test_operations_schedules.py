"""Operators run schedules now, pause, resume and skip them: what is sent, what is not, and how it is taken back."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from datetime import timedelta
from typing import Any

import asyncpg
import pytest
from operation_steps import OPS, audit, snapshot, undo
from schedule_slot_steps import SECOND, every, overdue, plan, ready, scheduled, state

from horsies.lifecycle.scheduling import due, run
from horsies.operations.pipeline import apply, preview
from horsies.operations.selection import Selection
from horsies.operations.target import OperationError
from horsies.operations.verb import OperationOutcome, Preview
from horsies.operations.verbs import VERBS


async def look(conn: asyncpg.Connection, verb: str, *names: str) -> Preview:
    return await preview(conn, VERBS["schedule", verb], Selection.of_ids(names))


async def act(conn: asyncpg.Connection, verb: str, *names: str) -> OperationOutcome:
    return await apply(conn, await look(conn, verb, *names), OPS, "moving house")


async def orders(conn: asyncpg.Connection) -> asyncpg.Record:
    row = await conn.fetchrow("SELECT paused_at, paused_by, reason, skip_slot, skipped_by FROM horsies_schedules")
    assert row is not None
    return row


async def sent(conn: asyncpg.Connection) -> list[Any]:
    return [row["sent_at"] for row in await conn.fetch("SELECT sent_at FROM horsies_tasks ORDER BY sent_at")]


async def test_a_paused_schedule_sends_nothing_also_by_a_scheduler_that_had_read_it_before(
    connection: asyncpg.Connection,
) -> None:
    schedules = scheduled(every("a"), every("b"))
    await plan(connection, schedules)
    await connection.execute("UPDATE horsies_schedule_state SET next_run_at = now()")
    runs = await ready(connection, schedules)
    (row,) = (await act(connection, "pause", "a")).rows
    assert row.applied
    assert [one.name for one in await due(connection, schedules)] == ["b"]
    assert await run(connection, runs) == ({"b"}, [])
    assert (await state(connection, "a"))["run_count"] == 0
    assert await due(connection, {"a": schedules["a"]}) == []
    (trace,) = await audit(connection)
    assert (trace["target_kind"], trace["target_id"], trace["verb"], trace["reason"]) == (
        *("schedule", "a", "pause"),
        "moving house",
    )


async def test_a_pause_waits_for_the_slot_that_is_being_sent_and_no_later_one_is(
    connection: asyncpg.Connection, other: asyncpg.Connection
) -> None:
    schedules = scheduled(every("a", 1))
    await plan(connection, schedules)
    await overdue(connection, 0)
    transaction = other.transaction()
    await transaction.start()
    await run(other, await ready(other, schedules))
    pausing = asyncio.create_task(act(connection, "pause", "a"))
    await asyncio.sleep(0.1)
    assert not pausing.done()
    await transaction.commit()
    assert [row.applied for row in (await pausing).rows] == [True]
    await overdue(other, 5)
    assert await ready(other, schedules) == []
    assert len(await sent(other)) == 1


async def test_a_scheduler_does_not_wait_for_a_pause_that_is_being_stored(
    connection: asyncpg.Connection, other: asyncpg.Connection
) -> None:
    schedules = scheduled(every("a"))
    await plan(connection, schedules)
    await overdue(connection, 1)
    runs = await ready(connection, schedules)
    transaction = other.transaction()
    await transaction.start()
    await other.execute("UPDATE horsies_schedules SET paused_at = now()")
    assert await run(connection, runs) == (set(), [])
    await transaction.rollback()
    assert await run(connection, runs) == ({"a"}, [])


@pytest.mark.parametrize("catch_up", [False, True])
async def test_a_resumed_schedule_goes_on_with_its_next_slot_and_sends_none_that_passed(
    connection: asyncpg.Connection, catch_up: bool
) -> None:
    schedules = scheduled(every("a", catch_up_missed=catch_up))
    await plan(connection, schedules)
    await act(connection, "pause", "a")
    slot = await overdue(connection, 35)
    seen = await look(connection, "resume", "a")
    assert seen.consequences == (
        f"a: next run {slot + 40 * SECOND:%Y-%m-%d %H:%M:%SZ}; 4 slots missed, which will not be sent",
    )
    assert [row.applied for row in (await apply(connection, seen, OPS, None)).rows] == [True]
    assert tuple(await orders(connection)) == (None,) * 5
    assert (await state(connection))["next_run_at"] == slot + 40 * SECOND
    assert await ready(connection, schedules) == []
    assert await sent(connection) == []


async def test_a_schedule_that_is_resumed_before_its_next_slot_keeps_it(connection: asyncpg.Connection) -> None:
    await plan(connection, scheduled(every("a", 3600)))
    before = (await state(connection))["next_run_at"]
    await act(connection, "pause", "a")
    (told,) = (await look(connection, "resume", "a")).consequences
    assert told.endswith("; no slot was missed")
    await act(connection, "resume", "a")
    assert (await state(connection))["next_run_at"] == before


async def test_a_resume_does_not_take_back_a_newer_pause(connection: asyncpg.Connection) -> None:
    await plan(connection, scheduled(every("a")))
    await act(connection, "pause", "a")
    seen = await look(connection, "resume", "a")
    await act(connection, "resume", "a")
    await act(connection, "pause", "a")
    (row,) = (await apply(connection, seen, OPS, None)).rows
    assert (row.applied, row.detail.startswith("it is paused since")) == (False, True)
    assert (await orders(connection))["paused_at"] is not None


async def test_a_schedule_that_upstream_deleted_meanwhile_is_still_paused_and_can_be_resumed(
    connection: asyncpg.Connection,
) -> None:
    schedules = scheduled(every("a"))
    await plan(connection, schedules)
    await act(connection, "pause", "a")
    await connection.execute("DELETE FROM horsies_schedule_state")
    assert [row.applied for row in (await act(connection, "resume", "a")).rows] == [True]
    await act(connection, "pause", "a")
    await plan(connection, schedules)
    await overdue(connection, 1)
    assert await ready(connection, schedules) == []


async def test_a_paused_schedule_is_not_planned_anew_by_an_older_release_because_it_is_overdue(
    connection: asyncpg.Connection,
) -> None:
    old, new = scheduled(every("a", 3600)), scheduled(every("a", 7200))
    await plan(connection, old)
    await plan(connection, new)
    await act(connection, "pause", "a")
    await overdue(connection, 60)
    assert await plan(connection, old, starts=False) == set()


async def test_a_skipped_slot_is_recorded_and_sends_nothing_and_the_next_one_does(
    connection: asyncpg.Connection,
) -> None:
    schedules = scheduled(every("a"))
    await plan(connection, schedules)
    slot = (await state(connection))["next_run_at"]
    assert (await look(connection, "skip", "a")).consequences == (
        f"a: the slot of {slot:%Y-%m-%d %H:%M:%SZ} sends nothing; next run {slot + 10 * SECOND:%Y-%m-%d %H:%M:%SZ}",
    )
    await act(connection, "skip", "a")
    assert tuple(await orders(connection)) == (None, None, None, slot, "ops@bastion")
    await connection.execute(
        "UPDATE horsies_schedule_state SET next_run_at = now() - interval '1 s';"
        "UPDATE horsies_schedules SET skip_slot = (SELECT next_run_at FROM horsies_schedule_state)"
    )
    (one,) = await ready(connection, schedules)
    assert await run(connection, [one]) == ({"a"}, [])
    row = await state(connection)
    assert (row["run_count"], row["last_run_at"], row["last_task_id"]) == (0, None, None)
    assert row["next_run_at"] == one.uses[0].slot + 10 * SECOND
    assert await sent(connection) == []
    used = await connection.fetch("SELECT slot, task_id, ordered_by FROM horsies_schedule_runs")
    assert used == [(one.uses[0].slot, None, "ops@bastion")]
    assert (await orders(connection))["skip_slot"] is None
    slot = await overdue(connection, 1)
    await run(connection, await ready(connection, schedules))
    assert await sent(connection) == [slot]


async def test_of_missed_slots_that_are_caught_up_only_the_skipped_one_is_left_out(
    connection: asyncpg.Connection,
) -> None:
    schedules = scheduled(every("a", catch_up_missed=True))
    await plan(connection, schedules)
    slot = await overdue(connection, 25)
    (told,) = (await look(connection, "skip", "a")).consequences
    assert told.endswith(f"; next run {slot + 10 * SECOND:%Y-%m-%d %H:%M:%SZ}")
    await act(connection, "skip", "a")
    await run(connection, await ready(connection, schedules))
    assert await sent(connection) == [slot + 10 * SECOND, slot + 20 * SECOND]
    used = await connection.fetch("SELECT slot FROM horsies_schedule_runs ORDER BY slot")
    assert [row["slot"] for row in used] == [slot + n * 10 * SECOND for n in range(3)]


async def test_a_scheduler_that_read_the_plan_before_the_skip_does_not_send_the_slot(
    connection: asyncpg.Connection,
) -> None:
    schedules = scheduled(every("a"))
    await plan(connection, schedules)
    await overdue(connection, 1)
    early = await ready(connection, schedules)
    await act(connection, "skip", "a")
    assert await run(connection, early) == (set(), [])
    assert await run(connection, await ready(connection, schedules)) == ({"a"}, [])
    assert await sent(connection) == []


async def test_a_slot_that_is_sent_meanwhile_is_not_skipped_nor_is_the_one_after_it(
    connection: asyncpg.Connection,
) -> None:
    schedules = scheduled(every("a"))
    await plan(connection, schedules)
    await overdue(connection, 1)
    seen = await look(connection, "skip", "a")
    await run(connection, await ready(connection, schedules))
    (row,) = (await apply(connection, seen, OPS, None)).rows
    assert (row.applied, row.detail.startswith("it is planned for")) == (False, True)
    assert (await orders(connection))["skip_slot"] is None


async def test_a_skip_is_taken_back_until_its_slot_has_passed(connection: asyncpg.Connection) -> None:
    schedules = scheduled(every("a"))
    await plan(connection, schedules)
    skipped = await act(connection, "skip", "a")
    assert skipped.can_be_undone
    assert [row.applied for row in (await undo(connection, skipped.operation_id, OPS, None)).rows] == [True]
    assert (await orders(connection))["skip_slot"] is None
    await overdue(connection, 1)
    skipped = await act(connection, "skip", "a")
    await run(connection, await ready(connection, schedules))
    (row,) = (await undo(connection, skipped.operation_id, OPS, None)).rows
    assert (row.applied, row.detail.startswith("it is planned for")) == (False, True)


async def test_a_pause_and_a_resume_are_taken_back_by_each_other(connection: asyncpg.Connection) -> None:
    await plan(connection, scheduled(every("a")))
    paused = await act(connection, "pause", "a")
    await undo(connection, paused.operation_id, OPS, None)
    assert (await orders(connection))["paused_at"] is None
    await act(connection, "pause", "a")
    resumed = await act(connection, "resume", "a")
    await undo(connection, resumed.operation_id, OPS, None)
    assert (await orders(connection))["paused_at"] is not None
    undone = [row["undoes"] for row in await audit(connection) if row["undoes"] is not None]
    assert len(undone) == 2


async def test_run_now_sends_what_a_slot_sends_and_leaves_the_plan_alone(connection: asyncpg.Connection) -> None:
    schedules = scheduled(every("a", kwargs={}, args=(7,)))
    await plan(connection, schedules)
    before = await state(connection)
    await act(connection, "pause", "a")
    outcome = await act(connection, "run-now", "a")
    (row,) = outcome.rows
    task = await connection.fetchrow("SELECT * FROM horsies_tasks")
    assert task is not None
    assert (task["id"], task["args"], task["max_retries"], task["status"]) == (row.new_id, "[7]", 2, "PENDING")
    slotted = schedules["a"].at(task["sent_at"])
    assert (task["enqueue_sha"], task["task_options"]) == (slotted.enqueue_sha, slotted.task_options)
    assert task["id"] != slotted.task_id
    used = await connection.fetchrow("SELECT task_id, ordered_by FROM horsies_schedule_runs")
    assert used == (task["id"], "ops@bastion")
    assert await state(connection) == before
    assert not outcome.can_be_undone
    (refused,) = (await undo(connection, outcome.operation_id, OPS, None)).rows
    assert f"`horsies tasks cancel {task['id']}`" in refused.detail


async def test_two_operators_who_run_a_schedule_at_once_send_two_tasks(
    connection: asyncpg.Connection, other: asyncpg.Connection
) -> None:
    await plan(connection, scheduled(every("a")))
    seen = await look(connection, "run-now", "a")
    await asyncio.gather(apply(connection, seen, OPS, None), apply(other, seen, OPS, None))
    assert await connection.fetchval("SELECT count(DISTINCT task_id) FROM horsies_schedule_runs") == 2
    assert await connection.fetchval("SELECT count(*) FROM horsies_tasks") == 2


async def test_run_now_says_whether_a_worker_takes_it_and_is_refused_once_the_schedule_sends_something_else(
    connection: asyncpg.Connection,
) -> None:
    await plan(connection, scheduled(every("a")))
    (told,) = (await look(connection, "run-now", "a")).consequences
    assert "sends report to queue default now, which no living worker serves: it waits for one" in told
    assert "`horsies tasks cancel ID`" in told
    await snapshot(connection, "web-1", queues=("default",))
    seen = await look(connection, "run-now", "a")
    assert "no living worker" not in seen.consequences[0]
    await plan(connection, scheduled(every("a", args=(8,))))
    (row,) = (await apply(connection, seen, OPS, None)).rows
    assert (row.applied, row.detail) == (False, "its definition has changed since the preview")
    assert await sent(connection) == []


async def test_what_cannot_be_sent_without_the_application_is_refused(connection: asyncpg.Connection) -> None:
    await plan(connection, scheduled(every("a")))
    await connection.execute(
        "UPDATE horsies_schedules SET definition = definition || $1::jsonb", json.dumps({"queue": None, "args": 7})
    )
    (refusal,) = (await look(connection, "run-now", "a")).refused
    assert "no usable queue, args" in refusal.reason


@pytest.mark.parametrize("verb", ["run-now", "pause", "resume", "skip"])
async def test_a_name_that_no_scheduler_has_registered_is_refused_with_the_likely_one(
    connection: asyncpg.Connection, verb: str
) -> None:
    await plan(connection, scheduled(every("nightly")))
    await connection.execute("INSERT INTO horsies_schedule_state (schedule_name) VALUES ('theirs')")
    found = await look(connection, verb, "nihgtly", "theirs")
    assert [refusal.reason for refusal in found.refused] == [
        "no scheduler has registered a schedule of that name; did you mean nightly?",
        "only a scheduler of another library has planned it, so its definition is not known",
    ]


async def test_an_order_that_stands_already_is_refused_with_the_present_state(connection: asyncpg.Connection) -> None:
    await plan(connection, scheduled(every("a"), every("b")))
    await act(connection, "pause", "a")
    await act(connection, "skip", "b")
    refused = [
        (await look(connection, verb, name)).refused[0].reason
        for verb, name in (("pause", "a"), ("skip", "a"), ("resume", "b"), ("skip", "b"))
    ]
    assert refused[0].startswith("it is paused since")
    assert refused[0].endswith('by ops@bastion "moving house"')
    assert refused[1].endswith("and sends nothing anyway")
    assert refused[2] == "it is not paused"
    assert refused[3].startswith("it already skips the slot of")


@pytest.mark.parametrize("change", [{"pattern": {"type": "lunar"}}, {"timezone": "Mars/Olympus"}])
async def test_what_a_later_release_has_planned_can_be_paused_but_is_resumed_by_that_release(
    connection: asyncpg.Connection, change: dict[str, Any]
) -> None:
    await plan(connection, scheduled(every("a")))
    await connection.execute("UPDATE horsies_schedules SET definition = definition || $1::jsonb", json.dumps(change))
    await act(connection, "pause", "a")
    await overdue(connection, 60)
    (refusal,) = (await look(connection, "resume", "a")).refused
    assert "cannot read its pattern or zone" in refusal.reason
    assert (await orders(connection))["paused_at"] is not None


async def test_a_database_without_the_table_says_how_it_is_made(connection: asyncpg.Connection) -> None:
    await connection.execute("DROP TABLE horsies_schedules")
    with pytest.raises(OperationError) as raised:
        await look(connection, "pause", "a")
    assert raised.value.help_text == "run `horsies db upgrade`"


async def test_a_daily_schedule_is_resumed_in_its_own_zone(connection: asyncpg.Connection) -> None:
    await plan(connection, scheduled(every("a")))
    change = {"pattern": {"type": "daily", "time": "02:30:00"}, "timezone": "Asia/Kathmandu"}
    await connection.execute("UPDATE horsies_schedules SET definition = definition || $1::jsonb", json.dumps(change))
    await act(connection, "pause", "a")
    await overdue(connection, 3 * 86_400)
    await act(connection, "resume", "a")
    at = (await state(connection))["next_run_at"]
    assert (at.hour, at.minute) == (20, 45)
    assert timedelta() < at - await connection.fetchval("SELECT now()") <= timedelta(days=1)


@pytest.mark.parametrize("verb", ["pause", "skip"])
async def test_of_two_operators_who_order_the_same_at_once_one_is_told_what_stands(
    connection: asyncpg.Connection, other: asyncpg.Connection, verb: str
) -> None:
    await plan(connection, scheduled(every("a", 3600)))
    seen = await look(connection, verb, "a")
    both = await asyncio.gather(apply(connection, seen, OPS, None), apply(other, seen, OPS, None))
    rows = sorted((outcome.rows[0] for outcome in both), key=lambda row: row.applied)
    assert [row.applied for row in rows] == [False, True]
    assert rows[0].detail.startswith("it is paused since" if verb == "pause" else "it is planned for")
    assert sorted(row["outcome"] for row in await audit(connection)) == ["applied", "refused"]


async def test_an_operator_who_dies_before_the_commit_has_paused_nothing(
    database: str, connection: asyncpg.Connection
) -> None:
    schedules = scheduled(every("a"))
    await plan(connection, schedules)
    await overdue(connection, 1)
    runs = await ready(connection, schedules)
    seen = await look(connection, "pause", "a")
    dying = await asyncpg.connect(database)
    await dying.execute(
        "CREATE FUNCTION die() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NULL; END $$;"
        "CREATE CONSTRAINT TRIGGER die AFTER UPDATE ON horsies_schedules DEFERRABLE INITIALLY DEFERRED"
        " FOR EACH ROW EXECUTE FUNCTION die()"
    )
    outcome = None
    with suppress(asyncpg.PostgresError, asyncpg.InterfaceError, OSError):
        outcome = await apply(dying, seen, OPS, None)
    assert outcome is None or [target.id for target in outcome.in_doubt] == ["a"]
    assert await audit(connection) == []
    assert await run(connection, runs) == ({"a"}, [])
