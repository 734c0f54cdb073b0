"""A model of each figure: what screens and CLI show is what plain SQL counts in the same snapshot.

The database is read in one REPEATABLE READ transaction while a writer goes on sending, claiming and ending tasks.
"""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import asyncpg
import pytest
from diagnose_steps import drain, pause, swept
from view_steps import reader, wanted

from horsies.cli.cluster.lists import _queue_lines, _status_lines, _worker_lines
from horsies.display.terminal import Screen
from horsies.findings import Severity
from horsies.findings.diagnose import Report, diagnose
from horsies.findings.searches.crashed import INTERRUPTED
from horsies.views import (
    ClusterStatus,
    Liveness,
    TaskCounts,
    busy_share,
    cluster_series,
    cluster_status,
    count_parts,
    queue_rates,
    queue_rows,
    task_counts,
    task_series,
    worker_rows,
)  # fmt: skip
from horsies.views.workers import name_of
from horsies_tui.feed.pace import USUAL as RHYTHM
from horsies_tui.feed.report import RecoverySnapshot
from horsies_tui.feed.tally import Tally
from horsies_tui.health.alerts import alerts
from horsies_tui.health.glance import Glance
from horsies_tui.health.history import History
from horsies_tui.health.verdict import verdict
from horsies_tui.health.windows import USUAL
from horsies_tui.look.cells import Look
from horsies_tui.look.glyphs import glyphs
from horsies_tui.look.units import count
from horsies_tui.overview.rows import QUEUE_COLUMNS, charts_of, queue_lines
from horsies_tui.recovery.report_rows import headline
from horsies_tui.workers.worker_texts import capacity, summary

QUEUES = ("mail", "paused", "drained", "unserved", "later")
COUNTED = ("due", "later", "claimed", "running")
SIGNS = glyphs(ascii_only=False)
PER_QUEUE = """
SELECT queue_name, count(*) FILTER (WHERE status = 'PENDING' AND enqueued_at <= statement_timestamp()) AS due,
       count(*) FILTER (WHERE status = 'PENDING' AND enqueued_at > statement_timestamp()) AS later,
       count(*) FILTER (WHERE status = 'CLAIMED') AS claimed, count(*) FILTER (WHERE status = 'RUNNING') AS running,
       min(enqueued_at) FILTER (WHERE status = 'CLAIMED'
                                   OR status = 'PENDING' AND enqueued_at <= statement_timestamp()) AS oldest
  FROM horsies_tasks WHERE status IN ('PENDING', 'CLAIMED', 'RUNNING') GROUP BY queue_name
"""
BY_STATE = """
SELECT CASE WHEN status = 'PENDING' AND next_retry_at > statement_timestamp() THEN 'RETRY'
            WHEN status = 'FAILED' AND error_code = 'TASK_INTERRUPTED' THEN 'INTERRUPTED' ELSE status END, count(*)
  FROM horsies_tasks GROUP BY 1
"""


@dataclass(frozen=True)
class Scene:
    """The workers, with the seconds since the last sign of each. `load` of all queues together."""

    name: str
    load: int = 300
    silent: int = 1
    paused: bool = True
    drained: bool = True


SCENES = (
    Scene("load"),
    Scene("nothing to do", load=0),
    Scene("only a paused queue", load=40, drained=False),
    Scene("an outage: no worker has told for a minute", silent=60),
    Scene("more failures than one read counts", load=12_000),
)


async def fill(conn: asyncpg.Connection, scene: Scene, rng: random.Random) -> None:
    for worker_id, silent, queues in (
        ("web-1-1-aa", scene.silent, "{mail,paused,later}"), ("web-2-1-bb", scene.silent, "{drained}"),
        ("web-3-1-cc", 50, "{mail}"), ("web-4-1-dd", 50, "{mail}"),
    ):  # fmt: skip
        await conn.execute(
            "INSERT INTO horsies_worker_states (worker_id, snapshot_at, hostname, pid, processes, max_claim_batch,"
            " max_claim_per_worker, queues, worker_started_at, tasks_running, draining, queue_max_concurrency)"
            " VALUES ($1::text, now() - $2 * interval '1 s', split_part($1::text, '-1-', 1), 1, 8, 8, 8,"
            " $3::text::text[], now(), $4, $5, '{\"mail\": 20}')",
            worker_id,
            silent,
            queues,
            rng.randrange(9) if worker_id != "web-4-1-dd" else 0,  # its own snapshot, a moment ago
            worker_id == "web-4-1-dd",
        )
    if scene.drained:
        await drain(conn, "web-2-1-bb")
    if scene.paused:
        await pause(conn, "paused")
    await swept(conn, 5)
    only_paused = scene.name == "only a paused queue"
    rows = []
    for number in range(scene.load):
        status = "PENDING" if only_paused else rng.choices(
            ("PENDING", "CLAIMED", "RUNNING", "COMPLETED", "FAILED", "CANCELLED", "EXPIRED"), (4, 1, 1, 8, 8, 1, 1)
        )[0]  # fmt: skip
        queue = "paused" if only_paused else rng.choice(QUEUES)
        ended = status not in ("PENDING", "CLAIMED", "RUNNING")
        ended_s = rng.choice((20, 100, 250, 400, 2000)) if ended else None
        ahead_s = rng.choice((600, -20, -200)) if status == "PENDING" and not only_paused else -180
        retry = status == "PENDING" and ahead_s > 0 and rng.random() < 0.5
        error = rng.choice(("TASK_INTERRUPTED", "WORKER_CRASHED", "TIMEOUT", None)) if status == "FAILED" else None
        worker = rng.choice(("web-1-1-aa", "web-2-1-bb", "web-3-1-cc")) if status in ("CLAIMED", "RUNNING") else None
        rows.append((f"t{number:05}", queue, status, ahead_s, ended_s, retry, error, worker))
    await conn.execute(
        "INSERT INTO horsies_tasks (id, task_name, queue_name, status, created_at, enqueued_at, next_retry_at,"
        " error_code, completed_at, failed_at, claimed_by_worker_id, claimed, claimed_at, claim_expires_at, started_at)"
        " SELECT id, 'shop.mail', queue, status, now() - interval '1 h', now() + ahead * interval '1 s',"
        "        CASE WHEN retry THEN now() + ahead * interval '1 s' END, error,"
        "        CASE WHEN status = 'COMPLETED' THEN at END, CASE WHEN status <> 'COMPLETED' THEN at END, worker,"
        "        status IN ('CLAIMED', 'RUNNING'), CASE WHEN worker IS NOT NULL THEN now() - interval '170 s' END,"
        "        CASE WHEN worker IS NOT NULL THEN now() + interval '60 s' END,"
        "        CASE WHEN status = 'RUNNING' THEN now() - interval '160 s' END"
        "   FROM unnest($1::text[], $2::text[], $3::text[], $4::int[], $5::int[], $6::bool[], $7::text[], $8::text[])"
        "        AS new (id, queue, status, ahead, ended, retry, error, worker)"
        "  CROSS JOIN LATERAL (SELECT now() - ended * interval '1 s' AS at) AS moment",
        *(list(column) for column in zip(*rows, strict=True)) if rows else [[]] * 8,
    )
    await conn.execute("ANALYZE")


@asynccontextmanager
async def writer(url: str) -> AsyncIterator[None]:
    """A session that sends, claims and ends tasks all the time."""
    conn = await asyncpg.connect(url)

    async def write() -> None:
        for number in range(1_000_000):
            await conn.execute(
                "INSERT INTO horsies_tasks (id, task_name, queue_name) VALUES ($1, 'x', 'mail')", f"w{number}"
            )
            await conn.execute(
                "UPDATE horsies_tasks SET status = 'COMPLETED', completed_at = now() WHERE id = $1", f"w{number - 5}"
            )
            await conn.execute(
                "UPDATE horsies_tasks SET status = 'RUNNING', started_at = now() WHERE id = $1", f"w{number - 2}"
            )

    task = asyncio.create_task(write())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await conn.close()


@dataclass(frozen=True)
class Read:
    """The data behind the screens and the CLI, and the counts of plain SQL, from one snapshot."""

    glance: Glance
    report: Report
    status: ClusterStatus
    series: Any
    counts: TaskCounts
    per_queue: dict[str, asyncpg.Record]
    by_state: dict[str, int]
    ended: dict[str, int]
    held: dict[str, int]
    moved: dict[str, tuple[int, int]]
    rates_over_s: float
    """Five minutes, or the age of the oldest task if it is younger."""
    busy: float | None


async def read(conn: asyncpg.Connection) -> Read:
    async with conn.transaction(isolation="repeatable_read", readonly=True):
        by_state = {row[0]: row[1] for row in await conn.fetch(BY_STATE)}
        report = await diagnose(conn)
        now = await conn.fetchval("SELECT statement_timestamp()")
        glance = Glance(
            now, await worker_rows(conn), await queue_rows(conn), await queue_rates(conn), report=report,
            busy=await busy_share(conn, now),
        )  # fmt: skip
        history, buckets = History(), USUAL.buckets(now)
        history.put(buckets, await task_series(conn, buckets), await cluster_series(conn, buckets))
        tally = Tally(RHYTHM, count_parts(wanted("")))
        while not tally.is_complete or tally.dirty:
            tally.begin(0.0)
            tally.add(await task_counts(conn, tally.part, tally.rest))
            tally.end(0.0, done=True)
        assert tally.counts is not None
        return Read(
            glance, report, await cluster_status(conn), history.series(buckets), tally.counts,
            {row["queue_name"]: row for row in await conn.fetch(PER_QUEUE)},
            by_state,
            dict(await conn.fetch(
                "SELECT status, count(*) FROM horsies_tasks"
                " WHERE COALESCE(completed_at, failed_at) > statement_timestamp() - interval '5 min' GROUP BY 1")),
            dict(await conn.fetch(
                "SELECT claimed_by_worker_id, count(*) FILTER (WHERE status = 'RUNNING') FROM horsies_tasks"
                " WHERE status IN ('CLAIMED', 'RUNNING') AND claimed_by_worker_id IS NOT NULL GROUP BY 1")),
            {row[0]: (row[1], row[2]) for row in await conn.fetch(
                "SELECT queue_name, count(*) FILTER (WHERE enqueued_at > statement_timestamp() - interval '5 min'"
                "                                      AND enqueued_at <= statement_timestamp()"
                # Some of the rows ended before they were due.
                "                                      AND COALESCE(completed_at, failed_at, 'infinity')"
                "                                          > statement_timestamp() - interval '5 min'),"
                " count(*) FILTER (WHERE COALESCE(completed_at, failed_at) > statement_timestamp() - interval '5 min')"
                "  FROM horsies_tasks GROUP BY 1")},
            await conn.fetchval(
                "SELECT LEAST(300, GREATEST(extract(epoch FROM statement_timestamp() - min(created_at)), 1))::float"
                "  FROM horsies_tasks"),
            await conn.fetchval(
                "SELECT sum(tasks_running)::float8 / sum(processes) FROM horsies_worker_states"
                " WHERE snapshot_at >= to_timestamp(floor(extract(epoch FROM statement_timestamp()) / 10) * 10 - 10)"
                "   AND snapshot_at < to_timestamp(floor(extract(epoch FROM statement_timestamp()) / 10) * 10)"),
        )  # fmt: skip


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.name)
async def test_every_figure_is_what_plain_sql_counts(scene: Scene, database: str) -> None:
    conn = await reader(database)
    await fill(conn, scene, random.Random(scene.name))
    async with writer(database):
        seen = await read(conn)
    await conn.close()
    for check in (
        the_table_of_queues_counts_what_there_is,
        rates_are_those_of_the_five_minutes_that_they_name,
        the_verdict_the_charts_and_the_table_say_the_same,
        a_queue_without_a_worker_is_not_said_to_be_empty_soon,
        workers_are_counted_by_what_they_own,
        counts_of_the_task_list_are_exact_when_they_have_gone_on,
        the_desk_and_the_header_count_what_is_listed,
        the_cli_says_what_the_screens_say,
    ):
        check(seen)


def cells(read: Read) -> dict[str, dict[str, str]]:
    """The table of the overview, by queue and column; the sum of all under an empty name."""
    look = Look(read.glance.now, glyphs=SIGNS)
    return {
        line.id: {column.key: column.cell(line, look).text for column in QUEUE_COLUMNS.columns}
        for line in queue_lines(read.glance)
    }


def total(read: Read, *columns: str) -> int:
    return sum(row[column] for row in read.per_queue.values() for column in columns)


def the_table_of_queues_counts_what_there_is(seen: Read) -> None:
    shown = cells(seen)
    for name, row in seen.per_queue.items():
        for column in COUNTED:
            assert shown[name][column] == count(row[column]), (name, column)
        assert shown[name]["pending"] == count(row["due"] + row["later"])
        assert bool(shown[name]["oldest"]) is (row["due"] + row["claimed"] > 0)
    assert {queue.name: queue.oldest_due_at for queue in seen.glance.queues if queue.oldest_due_at} == {
        name: row["oldest"] for name, row in seen.per_queue.items() if row["oldest"]
    }
    if len(shown) > 1:
        for column in COUNTED:
            assert shown[""][column] == count(total(seen, column))


def rates_are_those_of_the_five_minutes_that_they_name(seen: Read) -> None:
    over_s = seen.rates_over_s
    slack = 0.0 if over_s == 300 else 0.2  # the age of a young table grows from one statement to the next
    for name, (sent, ended) in seen.moved.items():
        rate = seen.glance.rate(name)
        if ended < 10_000:
            assert rate.out_per_s * over_s == pytest.approx(ended, rel=slack, abs=0.01), name
        assert rate.in_per_s * over_s == pytest.approx(sent, rel=slack, abs=0.01), name


def the_verdict_the_charts_and_the_table_say_the_same(seen: Read) -> None:
    glance, waits = seen.glance, total(seen, "due", "claimed")
    charts = {chart.title.lstrip("~"): chart for chart in charts_of(seen.series, USUAL, SIGNS.dash, glance)}
    assert charts["waiting"].curves[0].now == count(waits)
    busy = charts["busy"].curves[0]
    assert busy.now == (SIGNS.dash if seen.busy is None else f"{seen.busy:.0%}")
    assert busy.values[-1] == seen.busy
    calm = verdict(glance, ())
    assert ("no tasks waiting" in calm.words) is (waits == 0)
    if waits:
        assert re.search(r"(\d[\d, ]*) waiting", calm.words)[1].replace(" ", "").replace(",", "") == str(waits)  # type: ignore[index]
    if seen.busy is not None:
        assert f"{seen.busy:.0%} busy" in calm.words


def a_queue_without_a_worker_is_not_said_to_be_empty_soon(seen: Read) -> None:
    shown = cells(seen)
    for queue in seen.glance.queues:
        words = shown[queue.name]["drains"]
        if queue.paused_at is not None and queue.due.number:
            assert words.startswith("paused")
        elif not queue.claiming and queue.due.number:
            assert words == "stalled"
    if any(shown[queue.name]["drains"] == "stalled" for queue in seen.glance.queues) and len(shown) > 1:
        assert shown[""]["drains"] == "stalled"
    due = [queue for queue in seen.glance.queues if queue.due.number]
    if due and all(queue.paused_at is not None for queue in due) and len(shown) > 1:
        assert re.fullmatch(rf"\d+ of {len(shown) - 1} paused", shown[""]["drains"])


def workers_are_counted_by_what_they_own(seen: Read) -> None:
    workers = seen.glance.workers
    assert {row.id: row.running for row in workers if row.running} == {k: v for k, v in seen.held.items() if v}
    chips = " ".join(chip.text for chip in summary(workers, SIGNS))
    for liveness in Liveness:
        number = sum(row.liveness is liveness for row in workers)
        assert (f"{number} {liveness}" in chips) is bool(number)
    assert {row.id: row.liveness for row in workers if row.id > "web-3"}["web-4-1-dd"] is Liveness.STOPPED
    running = sum(seen.held.get(row.id, 0) for row in workers if row.lives)
    if any(row.lives for row in workers):
        assert capacity(workers).startswith(f"{running} task")


def counts_of_the_task_list_are_exact_when_they_have_gone_on(seen: Read) -> None:
    assert {state: number.number for state, number in seen.counts.states.items()} == seen.by_state
    assert seen.counts.reached is None
    assert not seen.counts.total.at_least
    assert seen.counts.total.number == sum(seen.by_state.values())


def the_desk_and_the_header_count_what_is_listed(seen: Read) -> None:
    interrupted = sum(finding.count for finding in seen.report.findings if finding.kind is INTERRUPTED)
    assert interrupted == seen.by_state.get("INTERRUPTED", 0) == seen.status.interrupted.number
    need = sum(finding.prediction.severity is Severity.NEEDS_ACTION for finding in seen.report.findings)
    assert RecoverySnapshot(seen.report).need_action == need
    assert headline(RecoverySnapshot(seen.report), seen.report.now).startswith(f"{need} need")
    # Findings appear on the overview, too: its verdict is not Healthy while a finding needs an operator.
    assert (verdict(seen.glance, alerts(seen.glance)).lead == "Critical: ") or not need


def the_cli_says_what_the_screens_say(seen: Read) -> None:
    shown, screen = cells(seen), Screen()
    lines = {line.split()[0]: line.split() for line in _queue_lines(seen.glance.queues, seen.glance.now, screen)[1:]}
    for queue in seen.glance.queues:
        words = lines[queue.name]
        expected = [str(number) for number in (queue.due.number, queue.later.number, queue.claimed, queue.running)]
        assert [word.replace(",", "") for word in words[1:5]] == expected
        assert [count(int(word)) for word in expected] == [
            shown[queue.name][c] for c in ("due", "later", "claimed", "running")
        ]
    workers = {
        line.split()[2]: line.split() for line in _worker_lines(seen.glance.workers, seen.glance.now, screen)[1:]
    }
    for row in seen.glance.workers:
        told = workers[name_of(row.id)]
        assert (told[1], told[4:6]) == (row.liveness, [str(row.running), str(row.claimed)])
    status = " ".join(_status_lines("db", seen.status, seen.report, screen))
    ended = {word: int(number.replace(",", "").replace(" ", "")) for number, word in re.findall(
        r"([\d,]+) (completed|failed|cancelled)", status)}  # fmt: skip
    assert ended == {
        "completed": seen.ended.get("COMPLETED", 0),
        "failed": seen.ended.get("FAILED", 0),
        "cancelled": seen.ended.get("CANCELLED", 0) + seen.ended.get("EXPIRED", 0),
    }
    assert "in the last 5m" in status
    assert ("nothing is stuck" in status) is (not seen.report.findings)
