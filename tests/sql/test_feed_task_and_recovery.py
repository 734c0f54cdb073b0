"""The feeds of a task's screen and of the recovery screen, on a real database."""

from __future__ import annotations

import asyncio

import asyncpg
import pytest
from feed_steps import Published, linked, reading, send

from horsies.doctor.examine import DATABASE
from horsies.findings import Finding, Severity
from horsies.findings.searches.crashed import INTERRUPTED
from horsies.findings.why import ReasonKind
from horsies_tui.feed import report
from horsies_tui.feed.report import RecoveryFeed, RecoverySnapshot
from horsies_tui.task.feed import DetailFeed


async def test_a_story_is_live_while_it_is_open(database: str, connection: asyncpg.Connection) -> None:
    await send(connection, "task-a")
    async with reading(DetailFeed, database, "task-a") as (_, published, _):
        snapshot = published.last
        assert snapshot.detail is not None
        assert snapshot.why is not None
        assert [reason.kind for reason in snapshot.why.reasons] == [ReasonKind.NO_WORKER]
        assert snapshot.settings is not None
        assert snapshot.settings.running_stale_threshold_ms == 300_000
        await connection.execute("UPDATE horsies_tasks SET status = 'CANCELLED'")
        snapshot = await published.until(lambda snapshot: snapshot.detail.row.status == "CANCELLED")
        assert snapshot.why is None


async def test_other_tasks_do_not_make_it_read_again(database: str, connection: asyncpg.Connection) -> None:
    await send(connection, "task-a")
    async with reading(DetailFeed, database, "task-a") as (feed, published, link):
        heard = asyncio.Event()
        link.on_dirty(lambda _channel, payload: heard.set() if payload == "task-b" else None)
        await send(connection, "task-b")
        async with asyncio.timeout(10):
            await heard.wait()
        assert not feed._reads[0].pace.dirty
        assert published.last.detail is not None


async def test_an_end_of_an_id_that_several_tasks_have_and_one_that_no_task_has(
    database: str, connection: asyncpg.Connection
) -> None:
    await send(connection, "task-a", "task-b")
    async with reading(DetailFeed, database, "task") as (feed, published, _):
        assert published.last.ambiguous is not None
        assert set(published.last.ambiguous.ids) == {"task-a", "task-b"}
        feed.ask("nosuch")
        snapshot = await published.until(lambda snapshot: not snapshot.loading)
        assert (snapshot.text, snapshot.detail, snapshot.ambiguous, snapshot.error) == ("nosuch", None, None, None)
        feed.ask("ask-b")
        snapshot = await published.until(lambda snapshot: not snapshot.loading)
        assert snapshot.detail is not None
        assert snapshot.detail.row.id == "task-b"


async def test_the_desk_counts_what_needs_a_person(database: str, connection: asyncpg.Connection) -> None:
    async with linked(database) as (link, _):
        published: Published[RecoverySnapshot] = Published()
        feed = RecoveryFeed(link, published, every_s=0.05)
        assert feed.snapshot.need_action is None
        feed.start()
        snapshot = await published.until(lambda snapshot: not snapshot.loading)
        assert snapshot.need_action == 0
        await send(connection, "a", queue_name="'nobody'", age_s=3600)
        await connection.execute(
            "INSERT INTO horsies_tasks (id, task_name, queue_name, status, error_code, failed_at)"
            " VALUES ('b', 'demo.add', 'default', 'FAILED', 'TASK_INTERRUPTED', now())"
        )
        snapshot = await published.until(lambda snapshot: snapshot.need_action == 2)
        assert snapshot.report is not None
        assert INTERRUPTED in {finding.kind for finding in snapshot.report.findings}
        feed.stop()


OLD_BEAT = """
INSERT INTO horsies_heartbeats (task_id, sender_id, role, sent_at)
VALUES ('old', 'w', 'runner', now() - interval '3 days')
"""


def of_database(snapshot: RecoverySnapshot) -> list[Finding]:
    return [] if snapshot.report is None else [one for one in snapshot.report.findings if one.kind is DATABASE]


async def test_what_the_doctor_fails_on_is_shown_within_a_minute_and_a_slow_examination_is_made_rarely(
    database: str, connection: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with linked(database) as (link, _):
        published: Published[RecoverySnapshot] = Published()
        feed = RecoveryFeed(link, published, every_s=0.05, examined_after_s=0.0)

        async def examined() -> float:
            """Return the seconds until the next examination, at the end of one."""
            await published.until(lambda _: feed._examining is not None)
            assert feed._examining is not None
            await feed._examining
            return feed._examine_at - feed._now()

        monkeypatch.setattr(report, "_EXAMINED_FACTOR", 0.0)
        feed.start()
        assert await examined() <= 60
        await connection.execute(OLD_BEAT)
        assert of_database(feed.snapshot) == []
        feed._examine_at -= 60  # a minute later
        (found,) = of_database(await published.until(of_database))
        assert found.name == "retention"
        await connection.execute("DELETE FROM horsies_heartbeats")
        feed._examining, feed._examine_at = None, feed._now()
        monkeypatch.setattr(report, "_EXAMINED_FACTOR", 1e9)
        assert 290 < await examined() <= 300
        feed.stop()


async def test_the_desk_shows_what_the_doctor_finds_while_reports_go_on(
    database: str, connection: asyncpg.Connection
) -> None:
    await connection.execute(OLD_BEAT)
    async with linked(database) as (link, _):
        published: Published[RecoverySnapshot] = Published()
        feed = RecoveryFeed(link, published, every_s=0.05, examined_after_s=0.0)
        feed.start()
        (found,) = of_database(await published.until(of_database))
        assert (found.name, found.prediction.severity) == ("retention", Severity.NEEDS_ACTION)
        assert "heartbeats: the oldest row is overdue by" in found.evidence
        assert any("horsies db prune" in sentence for sentence in found.why)
        assert "`horsies doctor`" in found.why[-1]
        # A report that is read later keeps it, until an examination finds nothing any more.
        await connection.execute(
            "INSERT INTO horsies_tasks (id, task_name, queue_name, status, error_code, failed_at)"
            " VALUES ('b', 'demo.add', 'default', 'FAILED', 'TASK_INTERRUPTED', now())"
        )
        assert of_database(await published.until(lambda snapshot: snapshot.need_action == 2)) == [found]
        await connection.execute("DELETE FROM horsies_heartbeats")
        await feed._begin_examination()
        await published.until(lambda snapshot: not of_database(snapshot))
        feed.stop()


async def test_the_desk_follows_changes_while_it_is_watched(database: str, connection: asyncpg.Connection) -> None:
    async with linked(database) as (link, statuses):
        published: Published[RecoverySnapshot] = Published()
        feed = RecoveryFeed(link, published)
        feed.start()
        await statuses.until(lambda status: status.state == "LIVE")
        await published.until(lambda snapshot: not snapshot.loading)
        feed.watch(True)
        async with asyncio.timeout(20):  # five reads for the header would take longer
            for number in range(1, 6):
                await connection.execute(
                    "INSERT INTO horsies_tasks (id, task_name, queue_name, status, error_code, failed_at)"
                    " VALUES ($1, $1, 'default', 'FAILED', 'TASK_INTERRUPTED', now())",
                    f"b{number}",
                )
                await published.until(lambda snapshot, number=number: snapshot.need_action == number)
        feed.stop()
