"""Statistics by task name and usual durations are what plain SQL counts, and say how much of the window they cover."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from typing import Any

import asyncpg
import pytest
from view_steps import every_id, insert, reader, wanted

from horsies.query import parse
from horsies.views import Usual, statistics, usual_durations
from horsies.views.counts import Count
from horsies.views.statistics import MOST_OF_A_NAME, StatisticsSort, TaskStatistics, task_statistics

HOUR = timedelta(hours=1)
FILL = """
INSERT INTO horsies_tasks (id, task_name, queue_name, status, retry_count, created_at, enqueued_at, started_at,
                           completed_at, failed_at, error_code)
SELECT name || n, name, 'q' || n % 3, status, CASE WHEN n % 7 = 0 THEN 2 ELSE 0 END, began - interval '9 s',
       began - (n * 31 % 89) / 10.0 * interval '1 s', CASE WHEN status NOT IN ('EXPIRED', 'PENDING') THEN began END,
       CASE status WHEN 'COMPLETED' THEN at END, CASE WHEN status IN ('FAILED', 'EXPIRED') THEN at END,
       CASE status WHEN 'FAILED' THEN 'CODE_' || n % 2 END
  FROM unnest('{shop.often,shop.failing,shop.seldom,shop.old}'::text[], '{900,90,9,5}'::int[], '{50,2,4,3}'::int[],
              '{7,100,1,4000}'::int[]) AS one (name, runs, fails, apart)
 CROSS JOIN generate_series(1, runs) n
 CROSS JOIN LATERAL (SELECT now() - (n * apart + CASE name WHEN 'shop.old' THEN 3600 ELSE 0 END) * interval '1 s' AS at,
                            CASE WHEN n % fails = 0 THEN 'FAILED' WHEN n % 101 = 0 THEN 'EXPIRED'
                                 WHEN n % 97 = 0 THEN 'PENDING' ELSE 'COMPLETED' END AS status) ended
 CROSS JOIN LATERAL (SELECT at - (n * 37 % 101) / 7.0 * interval '1 s' AS began) run
"""
# A task that upstream cancelled has no time; one whose clock went backwards has no run.
ODD = (
    {"status": "'CANCELLED'"},
    {"status": "'COMPLETED'", "started_at": "now() + interval '1 h'", "completed_at": "now() - interval '1 s'"},
    {"status": "'RUNNING'", "started_at": "now()"},
)
TRUTH = """
SELECT task_name, count(*), count(*) FILTER (WHERE status = 'FAILED'), sum(retry_count)::int,
       percentile_disc(0.5) WITHIN GROUP (ORDER BY wait), percentile_disc(0.95) WITHIN GROUP (ORDER BY wait),
       percentile_disc(0.5) WITHIN GROUP (ORDER BY run), percentile_disc(0.95) WITHIN GROUP (ORDER BY run),
       COALESCE(sum(run), 0)
  FROM (SELECT *,
               CASE WHEN began IS NOT NULL
                    THEN GREATEST(extract(epoch FROM began - enqueued_at), 0)::float8 END AS wait,
               extract(epoch FROM at - began)::float8 AS run,
               row_number() OVER (PARTITION BY task_name ORDER BY at DESC) AS place
          FROM horsies_tasks
         CROSS JOIN LATERAL (SELECT COALESCE(completed_at, failed_at) AS at) ended
         CROSS JOIN LATERAL (SELECT CASE WHEN started_at <= at THEN started_at END AS began) run
         WHERE status IN ('COMPLETED', 'FAILED', 'CANCELLED', 'EXPIRED')
           AND at >= $1) ended
 WHERE place <= $2 AND {holds} GROUP BY task_name ORDER BY task_name
"""


@pytest.fixture
async def conn(database: str) -> AsyncIterator[asyncpg.Connection]:
    connected = await reader(database)
    await connected.execute(FILL)
    for number, columns in enumerate(ODD):
        await insert(connected, f"odd{number}", **columns)
    yield connected
    await connected.close()


def figures(found: TaskStatistics) -> list[tuple[Any, ...]]:
    return [
        (
            row.name, row.tasks, row.failed, row.retries, row.wait_p50, row.wait_p95, row.run_p50, row.run_p95,
            pytest.approx(row.busy_s),
        )
        for row in found.sorted_by(StatisticsSort.NAME)
    ]  # fmt: skip


async def truth(conn: asyncpg.Connection, since: datetime, most: int = 10**6, holds: str = "true") -> Any:
    return [tuple(row) for row in await conn.fetch(TRUTH.replace("{holds}", holds), since, most)]


@pytest.mark.parametrize("minutes", [11, 60, 1440])
async def test_they_are_those_of_all_tasks_that_ended_within_the_window(conn: asyncpg.Connection, minutes: int) -> None:
    window = timedelta(minutes=minutes)
    found = await task_statistics(conn, wanted(""), window)
    assert figures(found) == await truth(conn, found.since)
    assert len(found.names) == (4 if minutes <= 60 else 5)
    assert {(row.partly, row.since) for row in found.names} == {(False, found.since)}
    assert {row.over_s for row in found.names} == {(found.now - found.since).total_seconds()}
    assert sum(row.busy_share for row in found.names) == pytest.approx(1)
    assert window <= found.now - found.since < window + timedelta(seconds=1)
    assert found.more_names is False
    assert figures(await task_statistics(conn, wanted(""), found.since)) == figures(found)


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("status:failed", "status = 'FAILED'"),
        ("queue:q1 -error:CODE_1", "queue_name = 'q1' AND error_code IS DISTINCT FROM 'CODE_1'"),
        ("name:shop.often,demo.add since:30d", "task_name IN ('shop.often', 'demo.add')"),
        ("name:*l*n*", "task_name LIKE '%l%n%'"),
        ("run:>5s workflow:no", "began < at - interval '5 s'"),
        ("status:live", "false"),
    ],
)
async def test_a_filter_chooses_the_tasks(conn: asyncpg.Connection, text: str, holds: str) -> None:
    found = await task_statistics(conn, wanted(text), HOUR)
    assert figures(found) == await truth(conn, found.since, holds=holds)
    for row in found.names:
        listed = await every_id(conn, found.filter_of(parse(text), [row.name]).text)
        assert len(listed) == row.tasks


@pytest.mark.parametrize("text", ["", "queue:q1"])
async def test_of_many_tasks_the_newest_of_each_name_are_read_and_the_row_says_since_when(
    conn: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setattr(statistics, "MOST_READ", 40)
    found = await task_statistics(conn, wanted(text), HOUR)
    assert figures(found) == await truth(conn, found.since, 10, "queue_name = 'q1'" if text else "true")
    rows = {row.name: row for row in found.names}
    assert {name for name, row in rows.items() if row.partly} == {"shop.often", "shop.failing"}
    often = rows["shop.often"]
    assert often.ended == Count(often.tasks, at_least=True)
    assert often.since == await conn.fetchval(
        "SELECT min(at) FROM (SELECT COALESCE(completed_at, failed_at) AS at FROM horsies_tasks"
        " WHERE task_name = 'shop.often' AND status <> 'PENDING' ORDER BY 1 DESC LIMIT 10) newest"
    )
    assert often.over_s == pytest.approx((found.now - often.since).total_seconds())
    assert (rows["shop.seldom"].since, str(rows["shop.seldom"].ended)) == (found.since, "3" if text else "9")
    # Compared by what they ran in a second, because each covers a time of its own.
    assert often.busy_share == pytest.approx(often.busy / sum(row.busy for row in found.names))


async def test_what_fails_most_comes_first_and_then_what_keeps_most_processes_busy(conn: asyncpg.Connection) -> None:
    found = await task_statistics(conn, wanted(""), HOUR)
    by = {sort: [row.name for row in found.sorted_by(sort)] for sort in StatisticsSort}
    assert by[StatisticsSort.WORST] == ["shop.failing", "shop.seldom", "shop.often", "demo.add"]
    assert by[StatisticsSort.ENDED][0] == by[StatisticsSort.BUSY][0] == by[StatisticsSort.RETRIES][0] == "shop.often"
    assert by[StatisticsSort.NAME] == sorted(by[StatisticsSort.NAME])
    for sort, figure in (("run", "run_p95"), ("wait", "wait_p95"), ("share", "failed_share"), ("failed", "failed")):
        values = [getattr(row, figure) or 0.0 for row in found.sorted_by(StatisticsSort(sort))]
        assert values == sorted(values, reverse=True)


async def test_names_beyond_the_bound_are_said_to_be_left_out(
    conn: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(statistics, "MOST_NAMES", 2)
    found = await task_statistics(conn, wanted(""), HOUR)
    assert ([row.name for row in found.sorted_by(StatisticsSort.NAME)], found.more_names) == (
        ["demo.add", "shop.failing"],
        True,
    )


async def test_a_young_or_empty_table_has_none(database: str) -> None:
    conn = await reader(database)
    found = await task_statistics(conn, wanted(""), HOUR)
    await conn.close()
    assert (found.names, found.more_names) == ((), False)


RUNS = """
INSERT INTO horsies_tasks (id, task_name, queue_name, status, started_at, completed_at, failed_at)
SELECT name || n, name, 'q', status, at - took * interval '1 s', CASE status WHEN 'COMPLETED' THEN at END,
       CASE status WHEN 'FAILED' THEN at END
  FROM unnest('{often,seldom}'::text[], '{700,30}'::int[]) AS one (name, runs)
 CROSS JOIN generate_series(1, runs) n
 CROSS JOIN LATERAL (SELECT now() - n * interval '1 min' AS at, (n * 37 % 101) / 7.0 AS took,
                            CASE WHEN n % 6 = 0 THEN 'FAILED' ELSE 'COMPLETED' END AS status) row
"""
TRUTH_OF_A_NAME = """
SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY took)::float8,
       percentile_disc(0.95) WITHIN GROUP (ORDER BY took)::float8, count(*)
  FROM (SELECT status, extract(epoch FROM completed_at - started_at) AS took
          FROM horsies_tasks WHERE task_name = $1 ORDER BY COALESCE(completed_at, failed_at) DESC LIMIT $2) newest
 WHERE status = 'COMPLETED'
"""


async def test_they_are_those_of_the_newest_completed_runs(conn: asyncpg.Connection) -> None:
    await conn.execute(RUNS)
    found = await usual_durations(conn, ["often", "seldom", "unknown", "often"])
    assert found == {
        name: Usual(*tuple(await conn.fetchrow(TRUTH_OF_A_NAME, name, MOST_OF_A_NAME))) for name in ("often", "seldom")
    }
    assert 400 < found["often"].runs < MOST_OF_A_NAME
    assert found["seldom"].runs == 25


async def test_runs_of_another_day_failed_runs_and_impossible_times_do_not_count(conn: asyncpg.Connection) -> None:
    for number, (status, began, ended) in enumerate(
        (
            ("COMPLETED", "26 h", "25 h"),
            ("FAILED", "2 h", "1 h"),
            ("COMPLETED", "1 h", "2 h"),
            ("RUNNING", "3 h", "1 h"),
            ("COMPLETED", "90 s", "80 s"),
        )
    ):
        at = "failed_at" if status == "FAILED" else "completed_at"
        times = {"started_at": f"now() - interval '{began}'", at: f"now() - interval '{ended}'"}
        await insert(conn, f"t{number}", status=f"'{status}'", **times)
    await insert(conn, "upstream", status="'CANCELLED'")
    assert await usual_durations(conn, ["demo.add"]) == {"demo.add": Usual(10.0, 10.0, 1)}


async def test_no_name_asks_for_nothing(conn: asyncpg.Connection) -> None:
    assert await usual_durations(conn, []) == {}
