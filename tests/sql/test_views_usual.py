"""How long the tasks of a name usually run, against the same figures from plain SQL."""

from __future__ import annotations

import asyncpg
from view_steps import insert

from horsies.views import Usual, usual_durations
from horsies.views.statistics import MOST_OF_A_NAME

RUNS = """
INSERT INTO horsies_tasks (id, task_name, queue_name, status, started_at, completed_at, failed_at)
SELECT name || n, name, 'q', status, at - took * interval '1 s', CASE status WHEN 'COMPLETED' THEN at END,
       CASE status WHEN 'FAILED' THEN at END
  FROM unnest('{often,seldom}'::text[], '{700,30}'::int[]) AS one (name, runs)
 CROSS JOIN generate_series(1, runs) n
 CROSS JOIN LATERAL (SELECT now() - n * interval '1 min' AS at, (n * 37 % 101) / 7.0 AS took,
                            CASE WHEN n % 6 = 0 THEN 'FAILED' ELSE 'COMPLETED' END AS status) row
"""
TRUTH = """
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
        name: Usual(*tuple(await conn.fetchrow(TRUTH, name, MOST_OF_A_NAME))) for name in ("often", "seldom")
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
