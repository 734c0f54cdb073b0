"""The report on schedules: runs that are overdue, and schedules that no scheduler could send."""

from __future__ import annotations

import asyncpg
import pytest
from diagnose_steps import of_kind, the_only
from schedule_slot_steps import every, overdue, plan, scheduled

from horsies.config.app import PostgresConfig
from horsies.config.contexts import DatabaseChoice
from horsies.findings import Severity
from horsies.findings.diagnose import diagnose
from horsies.findings.searches.late_schedules import NO_SCHEDULER, SCHEDULE_OVERDUE, SCHEDULER_LOST
from horsies.operations.pipeline import preview
from horsies.operations.selection import Selection
from horsies.operations.verbs import VERBS
from horsies.run.events import Events
from horsies.run.scheduler import ScheduleLoop
from horsies.run.settings import Identity
from horsies.store.connect import open_database
from horsies.store.dedicated_connection import DedicatedConnection

MINUTE_S = 60


async def scheduler(conn: asyncpg.Connection, *names: str, seconds: float = 5) -> None:
    await conn.execute(
        "INSERT INTO horsies_schedulers (scheduler_id, hostname, pid, schedules, horsies_version, seen_at)"
        " VALUES ($1, 'web-1', 7, $2, '1', now() - $3 * interval '1 s')",
        f"s-{seconds}",
        list(names),
        seconds,
    )


async def test_a_run_that_is_overdue_tells_when_it_ran_last_and_who_serves_it(connection: asyncpg.Connection) -> None:
    await plan(connection, scheduled(every("a"), every("b")))
    await scheduler(connection, "a", "b")
    await overdue(connection, 30)
    assert (await diagnose(connection)).findings == ()
    await overdue(connection, 2 * MINUTE_S)
    finding = await the_only(connection, SCHEDULE_OVERDUE)
    assert (finding.name, finding.target_kind, finding.ids, finding.count) == ("a", "schedule", ("a",), 1)
    assert finding.evidence == "its run was due 2m00s ago, never ran; served by web-1:7"
    assert finding.prediction.severity is Severity.NEEDS_ACTION
    assert "`schedule not sent`" in finding.why[0]
    await connection.execute("UPDATE horsies_schedule_state SET last_run_at = now() - interval '1 h'")
    assert "last run 1h00m ago" in (await the_only(connection, SCHEDULE_OVERDUE)).evidence


async def test_each_remedy_of_an_overdue_schedule_applies_and_a_pause_ends_the_finding(
    connection: asyncpg.Connection,
) -> None:
    await plan(connection, scheduled(every("a"), every("b")))
    await scheduler(connection, "b")
    await overdue(connection, 5 * MINUTE_S)
    finding = await the_only(connection, SCHEDULE_OVERDUE)
    assert "served by no running scheduler" in finding.evidence
    assert "pause it to end this finding" in finding.why[-1]
    assert [remedy.verb for remedy in finding.remedies] == ["run-now", "pause"]
    for remedy in finding.remedies:
        found = await preview(connection, VERBS[remedy.target_kind, remedy.verb], Selection.of_ids(remedy.ids))
        assert [target.id for target in found.eligible] == ["a"]
    await connection.execute("UPDATE horsies_schedules SET paused_at = now()")
    assert (await diagnose(connection)).findings == ()


async def test_without_a_scheduler_there_is_one_finding_that_names_the_command(connection: asyncpg.Connection) -> None:
    await plan(connection, scheduled(every("a"), every("b")))
    finding = await the_only(connection, NO_SCHEDULER)
    assert (finding.count, finding.prediction.severity) == (2, Severity.NOTE)
    assert finding.evidence.startswith("2 schedules planned, next run ")
    assert finding.evidence.endswith("; none was seen within a day")
    assert "`horsies scheduler shop.tasks:app`" in finding.why[0]
    await scheduler(connection, "a", "b", seconds=3 * MINUTE_S)
    await overdue(connection, 2 * MINUTE_S)
    finding = await the_only(connection, NO_SCHEDULER)
    assert finding.prediction.severity is Severity.NEEDS_ACTION
    assert finding.evidence == (
        "2 schedules planned, 1 run overdue; the last, pid 7 on web-1, was seen 3m00s ago and did not stop"
    )
    assert of_kind(await diagnose(connection), SCHEDULE_OVERDUE) == []
    await scheduler(connection, "a", "b")
    assert of_kind(await diagnose(connection), NO_SCHEDULER) == []


async def test_a_scheduler_that_fell_silent_is_found_with_its_host_and_what_it_leaves(
    connection: asyncpg.Connection,
) -> None:
    await plan(connection, scheduled(every("a"), every("b"), every("c")))
    await scheduler(connection, "a", "b", "c", seconds=11)
    assert (await diagnose(connection)).findings == ()
    await connection.execute("UPDATE horsies_schedulers SET seen_at = now() - interval '14 s'")
    finding = await the_only(connection, SCHEDULER_LOST)
    assert (finding.name, finding.count, finding.ids) == ("web-1:7", 3, ("a", "b", "c"))
    assert finding.evidence == "no sign of life from pid 7 on web-1 for 14s; no other scheduler has 3 of its schedules"
    assert finding.prediction.severity is Severity.NEEDS_ACTION
    await connection.execute("UPDATE horsies_schedules SET paused_at = now() WHERE schedule_name = 'c'")
    await scheduler(connection, "a")
    assert (await the_only(connection, SCHEDULER_LOST)).ids == ("b",)
    await scheduler(connection, "a", "b", seconds=4)
    finding = await the_only(connection, SCHEDULER_LOST)
    assert (finding.count, finding.prediction.severity) == (0, Severity.NOTE)
    assert finding.evidence.endswith("another scheduler has all of its schedules")
    await connection.execute(
        "UPDATE horsies_schedulers SET seen_at = now() - interval '11 min' WHERE scheduler_id = 's-11'"
    )
    assert (await diagnose(connection)).findings == ()


@pytest.mark.parametrize(("every_s", "lives_s", "lost_s"), [(1, 8, 10), (40, 47, 49)])
async def test_a_scheduler_is_lost_after_the_silence_that_it_announced(
    database: str, connection: asyncpg.Connection, every_s: float, lives_s: int, lost_s: int
) -> None:
    """One that steps once a second is found within 15 s: the report is read every 5 s."""
    schedules = scheduled(every("a"))
    await plan(connection, schedules)
    async with open_database(DatabaseChoice(PostgresConfig(database_url=database).url, "given by the test")) as opened:
        dedicated = DedicatedConnection(opened, "scheduler", behind_pooler=False)
        await ScheduleLoop([*schedules.values()], dedicated, Events(), Identity(), every_s).step()
        await dedicated.close()
    silent = "UPDATE horsies_schedulers SET seen_at = now() - $1 * interval '1 s'"
    await connection.execute(silent, float(lives_s))
    assert (await diagnose(connection)).findings == ()
    await connection.execute(silent, float(lost_s))
    assert (await the_only(connection, SCHEDULER_LOST)).ids == ("a",)


async def test_a_scheduler_that_looks_once_a_minute_may_be_two_minutes_late(connection: asyncpg.Connection) -> None:
    await plan(connection, scheduled(every("a")))
    await scheduler(connection, "a")
    await connection.execute(
        "UPDATE horsies_schedules SET definition = definition || '{\"check_interval_seconds\": 60.0}'"
    )
    await overdue(connection, 110)
    assert (await diagnose(connection)).findings == ()
    await overdue(connection, 130)
    await the_only(connection, SCHEDULE_OVERDUE)


async def test_nothing_is_said_without_schedules_or_without_our_tables(connection: asyncpg.Connection) -> None:
    assert (await diagnose(connection)).findings == ()
    await plan(connection, scheduled(every("a")))
    await connection.execute("UPDATE horsies_schedules SET paused_at = now()")
    assert (await diagnose(connection)).findings == ()
    await overdue(connection, 5 * MINUTE_S)
    await connection.execute("DROP TABLE horsies_schedules, horsies_schedulers, horsies_schedule_runs")
    assert (await diagnose(connection)).findings == ()
