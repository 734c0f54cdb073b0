"""Schedules in the database: each slot is sent once, by one of many schedulers, whole or not at all."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace

import asyncpg
from schedule_slot_steps import SECOND, every, overdue, plan, ready, scheduled, state

from horsies.config.schedule import stored_pattern
from horsies.lifecycle.retention import Category, prune
from horsies.lifecycle.scheduling import (
    DueSchedule,
    RunningScheduler,
    SlotUse,
    due,
    remove_scheduler,
    renew_scheduler,
    run,
)


async def test_a_new_schedule_is_planned_and_not_yet_due(connection: asyncpg.Connection) -> None:
    schedules = scheduled(every("a"), every("b"))
    assert await plan(connection, schedules) == {"a", "b"}
    assert await plan(connection, schedules) == set()
    row = await state(connection)
    assert (row["run_count"], row["last_run_at"], row["config_hash"]) == (0, None, schedules["a"].hash)
    assert await connection.fetchval("SELECT next_run_at - now() FROM horsies_schedule_state LIMIT 1") < 10 * SECOND
    assert await due(connection, schedules) == []


async def test_a_due_slot_becomes_a_task_and_the_row_moves_on(connection: asyncpg.Connection) -> None:
    schedules = scheduled(every("a"))
    await plan(connection, schedules)
    slot = await overdue(connection, 3)
    (one,) = await ready(connection, schedules)
    assert await run(connection, [one]) == ({"a"}, [])
    task = await connection.fetchrow("SELECT * FROM horsies_tasks")
    assert task is not None
    assert (task["id"], task["sent_at"], task["args"], task["status"]) == (one.tasks[0].task_id, slot, "[1]", "PENDING")
    assert (task["max_retries"], '"BUSY"' in task["task_options"], task["enqueue_sha"]) == (
        *(2, True, one.tasks[0].enqueue_sha),
    )
    row = await state(connection)
    assert (row["next_run_at"], row["last_task_id"], row["run_count"]) == (slot + 10 * SECOND, task["id"], 1)
    assert row["last_run_at"] > slot
    assert await run(connection, [one]) == (set(), [])
    assert await connection.fetchval("SELECT count(*) FROM horsies_tasks") == 1


async def test_of_many_schedulers_at_once_one_sends_the_slot(database: str, connection: asyncpg.Connection) -> None:
    schedules = scheduled(*(every(f"s{n}") for n in range(20)))
    await plan(connection, schedules)
    await connection.execute("UPDATE horsies_schedule_state SET next_run_at = now()")
    rivals = [await asyncpg.connect(database) for _ in range(5)]
    runs = await ready(connection, schedules)
    answers = await asyncio.gather(*(run(rival, runs) for rival in rivals))
    for rival in rivals:
        await rival.close()
    assert sorted(name for names, _ in answers for name in names) == sorted(schedules)
    assert await connection.fetchval("SELECT count(*) FROM horsies_tasks") == 20
    assert {row["run_count"] for row in await connection.fetch("SELECT * FROM horsies_schedule_state")} == {1}


async def test_a_scheduler_does_not_wait_for_one_that_hangs_in_its_statement(
    connection: asyncpg.Connection, other: asyncpg.Connection
) -> None:
    schedules = scheduled(every("a"), every("b"))
    await plan(connection, schedules)
    await connection.execute("UPDATE horsies_schedule_state SET next_run_at = now()")
    runs = await ready(connection, schedules)
    transaction = other.transaction()
    await transaction.start()
    await run(other, [one for one in runs if one.due.name == "a"])
    assert await run(connection, runs) == ({"b"}, [])
    await transaction.rollback()  # as when its session ends
    assert await run(connection, [one for one in runs if one.due.name == "a"]) == ({"a"}, [])
    assert await connection.fetchval("SELECT count(*) FROM horsies_tasks") == 2


async def test_a_scheduler_that_wakes_up_late_sends_nothing_again(connection: asyncpg.Connection) -> None:
    schedules = scheduled(every("a"))
    await plan(connection, schedules)
    await overdue(connection, 3)
    late = await ready(connection, schedules)
    await run(connection, await ready(connection, schedules))
    await connection.execute("DELETE FROM horsies_tasks")  # it has run and has been pruned meanwhile
    assert await run(connection, late) == (set(), [])
    assert await connection.fetchval("SELECT count(*) FROM horsies_tasks") == 0


async def test_missed_slots_are_caught_up_in_one_tick_that_counts_once(connection: asyncpg.Connection) -> None:
    schedules = scheduled(every("a", catch_up_missed=True, max_catch_up_runs=4))
    await plan(connection, schedules)
    slot = await overdue(connection, 65)
    assert (await run(connection, await ready(connection, schedules)))[0] == {"a"}
    sent = await connection.fetch("SELECT sent_at FROM horsies_tasks ORDER BY sent_at")
    assert [row["sent_at"] for row in sent] == [slot + n * 10 * SECOND for n in range(4)]
    assert ((await state(connection))["next_run_at"], (await state(connection))["run_count"]) == (slot + 40 * SECOND, 1)
    await run(connection, await ready(connection, schedules))
    assert await connection.fetchval("SELECT count(*) FROM horsies_tasks") == 7
    assert await ready(connection, schedules) == []


async def test_another_pattern_is_planned_anew_but_a_due_run_is_sent_first(connection: asyncpg.Connection) -> None:
    await plan(connection, scheduled(every("a"), every("b")))
    slot = await overdue(connection, 1)
    changed = scheduled(every("a", 3600), every("b", 3600))
    assert await plan(connection, changed) == {"a", "b"}
    assert (await state(connection))["next_run_at"] == slot
    assert await connection.fetchval(
        "SELECT next_run_at > now() + interval '50 min' FROM horsies_schedule_state WHERE schedule_name = 'b'"
    )
    assert (await run(connection, await ready(connection, changed)))[0] == {"a"}
    assert (await state(connection))["next_run_at"] == slot + 3600 * SECOND


async def test_a_scheduler_of_another_release_sends_nothing_by_its_own_pattern(connection: asyncpg.Connection) -> None:
    old = scheduled(every("a"))
    await plan(connection, old)
    await plan(connection, scheduled(every("a", 20)))
    await overdue(connection, 1)
    (one,) = await due(connection, old)
    stale = DueSchedule(one.name, one.slot, old["a"].hash, one.now)
    assert one.slot is not None
    assert await run(connection, [old["a"].run_of(stale)]) == (set(), [])


async def test_releases_that_run_side_by_side_do_not_plan_an_interval_again_and_again(
    connection: asyncpg.Connection,
) -> None:
    old, new = scheduled(every("a", 3600)), scheduled(every("a", 7200))
    await plan(connection, old)
    await plan(connection, new)
    before = await state(connection)
    assert await plan(connection, old, starts=False) == set()
    assert await state(connection) == before
    slot = await overdue(connection, 31)  # the scheduler of the new release is gone
    assert await plan(connection, old, starts=False) == {"a"}
    assert (await run(connection, await ready(connection, old)))[0] == {"a"}
    assert (await state(connection))["next_run_at"] == slot + 3600 * SECOND


async def test_rows_of_other_applications_are_left_alone(connection: asyncpg.Connection) -> None:
    await plan(connection, scheduled(every("theirs")))
    before = await state(connection, "theirs")
    await plan(connection, scheduled(every("a")))
    assert await state(connection, "theirs") == before


async def test_one_schedule_that_the_database_rejects_does_not_hold_up_the_others(
    connection: asyncpg.Connection,
) -> None:
    schedules = scheduled(every("a"), every("b"))
    await plan(connection, schedules)
    await connection.execute("UPDATE horsies_schedule_state SET next_run_at = now()")
    runs = {one.due.name: one for one in await ready(connection, schedules)}
    use = SlotUse(runs["b"].uses[0].slot, runs["b"].tasks[0]._replace(queue_name="q" * 60))
    bad = replace(runs["b"], uses=[use])
    sent, refused = await run(connection, [runs["a"], bad])
    assert (sent, [one.item.due.name for one in refused]) == ({"a"}, ["b"])
    assert (await state(connection, "b"))["run_count"] == 0


async def test_a_row_of_upstream_that_was_never_planned_is_due(connection: asyncpg.Connection) -> None:
    schedules = scheduled(every("a"))
    sql = "INSERT INTO horsies_schedule_state (schedule_name, run_count, config_hash) VALUES ('a', 7, $1)"
    await connection.execute(sql, schedules["a"].hash)
    assert await plan(connection, schedules) == set()
    assert (await run(connection, await ready(connection, schedules)))[0] == {"a"}
    assert (await state(connection))["run_count"] == 8


async def test_what_a_schedule_is_stands_in_the_database_and_is_written_once(connection: asyncpg.Connection) -> None:
    schedules = scheduled(every("a", catch_up_missed=True, timezone="Europe/Berlin"))
    await plan(connection, schedules)
    row = await connection.fetchrow("SELECT *, xmin FROM horsies_schedules")
    assert row is not None
    assert row["config_hash"] == schedules["a"].hash
    told = json.loads(row["definition"])
    assert (told.pop("task_options"), told.pop("kwargs")) == (schedules["a"].request.task_options, None)
    assert told == {
        "kind": "task",
        "target": "report",
        "queue": "default",
        "priority": 100,
        "args": "[1]",
        "max_retries": 2,
        "pattern": {"type": "interval", "seconds": 10},
        "timezone": "Europe/Berlin",
        "catch_up_missed": True,
        "max_catch_up_runs": 100,
        "check_interval_seconds": 1.0,
    }
    assert stored_pattern(told["pattern"]) == schedules["a"].schedule.pattern
    await connection.execute("UPDATE horsies_schedules SET paused_by = 'ops'")
    before = await connection.fetchrow("SELECT *, xmin FROM horsies_schedules")
    await plan(connection, schedules)
    await plan(connection, schedules, starts=False)
    assert await connection.fetchrow("SELECT *, xmin FROM horsies_schedules") == before
    await plan(connection, scheduled(every("a", kwargs={"day": 1}, args=())))
    after = await connection.fetchrow("SELECT definition ->> 'args', paused_by FROM horsies_schedules")
    assert after == (None, "ops")


async def test_a_schedule_whose_row_was_deleted_is_defined_again_and_sent(connection: asyncpg.Connection) -> None:
    schedules = scheduled(every("a"))
    await plan(connection, schedules)
    await overdue(connection, 1)
    await connection.execute("TRUNCATE horsies_schedules")
    (one,) = await ready(connection, schedules)
    assert (one.due.is_defined, await run(connection, [one])) == (False, (set(), []))
    await plan(connection, schedules, starts=False)
    assert (await run(connection, await ready(connection, schedules)))[0] == {"a"}


async def test_each_slot_that_was_used_is_recorded_with_its_task(connection: asyncpg.Connection) -> None:
    schedules = scheduled(every("a", catch_up_missed=True))
    await plan(connection, schedules)
    slot = await overdue(connection, 15)
    (one,) = await ready(connection, schedules)
    await run(connection, [one])
    rows = await connection.fetch("SELECT slot, task_id, workflow_id, ordered_by FROM horsies_schedule_runs ORDER BY 1")
    assert rows == [(slot + n * 10 * SECOND, one.tasks[n].task_id, None, None) for n in range(2)]


async def test_a_scheduler_shows_that_it_runs_and_leaves_those_that_died_to_retention(
    connection: asyncpg.Connection,
) -> None:
    await connection.execute(
        "INSERT INTO horsies_schedulers (scheduler_id, hostname, pid, schedules, horsies_version, seen_at)"
        " SELECT 'dead' || days, 'h', 1, '{}', '0', now() - days * interval '20 h' FROM generate_series(1, 3) days"
    )
    await renew_scheduler(connection, RunningScheduler("me", "host", 7, ["a"], "1.2", 9.0))
    first = await connection.fetchval("SELECT seen_at FROM horsies_schedulers WHERE scheduler_id = 'me'")
    await renew_scheduler(connection, RunningScheduler("me", "host", 7, ["a"], "1.2", 9.0))
    rows = await connection.fetch("SELECT * FROM horsies_schedulers ORDER BY scheduler_id")
    assert [row["scheduler_id"] for row in rows] == ["dead1", "dead2", "dead3", "me"]
    assert tuple(rows[3])[:5] == ("me", "host", 7, ["a"], "1.2")
    assert rows[3]["seen_at"] > first >= rows[3]["started_at"]
    await remove_scheduler(connection, "me")
    assert await connection.fetchval("SELECT count(*) FROM horsies_schedulers") == 3
    assert (await prune(connection, {Category.WORKER_STATES: 50 * 3_600.0})).rows["schedulers"] == 1
