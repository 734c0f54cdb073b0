"""Statistics by task name in the task list: each figure is plain SQL's, each row leads to its tasks."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import asyncpg
import pytest
from task_rows import fill
from task_steps import Screen, console
from verb_steps import until

from horsies.views import StatisticsSort
from horsies_tui.look.units import count, length
from horsies_tui.tasks.statistics import ORDER_WORDS

TRUTH = """
SELECT task_name AS name, count(*) AS ended, count(*) FILTER (WHERE status = 'FAILED') AS failed,
       sum(retry_count)::int AS retries, sum(run) / sum(sum(run)) OVER () AS busy,
       percentile_disc(ARRAY[0.5, 0.95]) WITHIN GROUP (ORDER BY wait) AS wait,
       percentile_disc(ARRAY[0.5, 0.95]) WITHIN GROUP (ORDER BY run) AS run
  FROM (SELECT *, extract(epoch FROM started_at - enqueued_at)::float8 AS wait,
               extract(epoch FROM COALESCE(completed_at, failed_at) - started_at)::float8 AS run
          FROM horsies_tasks WHERE COALESCE(completed_at, failed_at) > now() - interval '1 h') ended
 GROUP BY task_name
 ORDER BY (count(*) FILTER (WHERE status = 'FAILED')) ^ 2 / count(*) DESC, sum(run) DESC
"""


@pytest.fixture
async def shop(database: str, connection: asyncpg.Connection) -> str:
    await fill(connection, 3_000)  # sent within 25 minutes
    # None of them ends in the future, as the newest of the shop do.
    await connection.execute("DELETE FROM horsies_tasks WHERE COALESCE(completed_at, failed_at) > now()")
    await connection.execute("UPDATE horsies_tasks SET retry_count = 3 WHERE task_name = 'charge_card'")
    return database


def expected(row: asyncpg.Record) -> list[str]:
    seconds = [length(timedelta(seconds=each)) for each in (*row["wait"], *row["run"])]
    numbers = [count(row["ended"]), count(row["failed"]), f"{row['failed'] / row['ended']:.1%}", count(row["retries"])]
    return [row["name"], *numbers, *seconds, f"{row['busy']:.0%}"]


def names(screen: Screen) -> list[str]:
    return [line.lstrip("▌● ").split()[0] for line in screen.rows]


async def test_the_figures_are_those_of_plain_sql_sorted_by_what_fails_most(
    shop: str, connection: asyncpg.Connection
) -> None:
    async with console(shop) as screen:
        await screen.sees("FOLLOW")
        assert "next grouping" not in screen.text
        await screen.press("e", "s")
        await screen.sees("ended in the last 1h, since", "what fails most first", "RUN P95", "send_confirmation")
        truth = await connection.fetch(TRUTH)
        assert [line.lstrip("▌● ").split()[:10] for line in screen.rows] == [expected(row) for row in truth]
        await screen.press("s", "e")
        await screen.sees(ORDER_WORDS[StatisticsSort.ENDED])
        by_number = sorted(truth, key=lambda row: (-row["ended"], row["name"]))
        await until(screen.pilot, lambda: names(screen) == [row["name"] for row in by_number], "sorts by number")
        await screen.press("home", "enter")
        first = by_number[0]
        await screen.sees(f"/ name:{first['name']} ended:>=20", f"{first['ended']:,} match", "STATE")


async def test_windows_groupings_and_empty_ones_say_what_to_do(shop: str) -> None:
    async with console(shop, (80, 24)) as screen:
        await screen.sees("FOLLOW")
        await screen.press("n", "right_square_bracket")
        await screen.press("e", "s")
        await screen.sees("last 1h", "n next grouping", "charge_card")
        assert "fail  " not in screen.text.splitlines()[-1]
        await screen.press("left_square_bracket", "left_square_bracket")
        await screen.sees("last 5m", "charge_card")
        await screen.press("n")
        await screen.sees("by task name", "TASKS")
        await screen.press("n", "n", "n", "n")
        await screen.sees("last 1h", "charge_card")
        await screen.press("escape")
        await screen.sees("FOLLOW")
        await screen.filter("queue:none")
        await screen.sees("No task matches")
        await screen.press("e", "s")
        await screen.sees("No task that matches ended in the last 1h. ] widens the window")


async def test_marked_names_are_chosen_with_their_window_and_y_takes_a_name(shop: str) -> None:
    async with console(shop, filter="status:failed -name:none") as screen:
        await screen.sees("match")
        await screen.press("e", "s")
        await screen.sees("100.0%", "charge_card")
        await screen.press("s", "n", "home", "space", "j", "space")
        await screen.sees("● 2 marked")
        selection: Any = screen.view.selection()
        assert str(selection.filter).startswith("status:failed -name:none name:charge_card,nightly_import ended:>=20")
        await screen.press("escape", "asterisk")
        await screen.sees("● 5 marked")
        await screen.press("y")
        await screen.sees("nightly_import sent to the terminal")
