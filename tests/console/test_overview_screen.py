"""The overview on a real database: its texts, the rows that its numbers open, and its layout on small terminals."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import asyncpg
import pytest
from feed_steps import send
from schedule_scene import add_schedule, add_scheduler, definition
from task_steps import Screen, console
from verb_steps import until

from horsies.operations.target import Actor
from horsies_tui.overview.view import OverviewView
from horsies_tui.settings import ConsoleOptions
from horsies_tui.tasks.view import TasksView
from horsies_tui.widgets.chart_grid import ChartGrid

OVERVIEW: Any = {"screen": "overview"}


async def ended(
    conn: asyncpg.Connection, count: int, *, within_s: float, status: str = "COMPLETED", **columns: str
) -> None:
    """Tasks that ended evenly over the last minutes; each waited 1 s and ran 2 s."""
    given = {"task_name": "'shop.mail'", "queue_name": "'mail'", **columns}
    await conn.execute(
        f"INSERT INTO horsies_tasks (id, status, created_at, enqueued_at, started_at, completed_at, failed_at,"
        f" {', '.join(given)})"
        f" SELECT gen_random_uuid()::text, $1::text, at - interval '3 s', at - interval '3 s', at - interval '2 s',"
        f"        CASE $1::text WHEN 'COMPLETED' THEN at END, CASE $1::text WHEN 'FAILED' THEN at END,"
        f" {', '.join(given.values())}"
        "   FROM generate_series(0, $2 - 1) n"
        "  CROSS JOIN LATERAL (SELECT now() - n * $3::float8 / $2 * interval '1 s' AS at) AS made",
        status,
        count,
        within_s,
    )


async def alive(conn: asyncpg.Connection, *workers: str, queues: str = "{mail}") -> None:
    """Snapshots of these workers, a new one and one of ten seconds ago: four of eight processes are busy."""
    await conn.execute(
        "INSERT INTO horsies_worker_states (worker_id, snapshot_at, hostname, pid, processes, max_claim_batch,"
        " max_claim_per_worker, queues, tasks_running, worker_started_at, queue_max_concurrency)"
        " SELECT id, at, 'web', 7, 8, 8, 8, $2::text::text[], 4, now() - interval '10 s', '{\"mail\": 20}'"
        "   FROM unnest($1::text[]) AS worker (id), unnest(ARRAY[now(), now() - interval '10 s']) AS at",
        list(workers),
        queues,
    )


def shown_ids(screen: Screen) -> set[str]:
    return {row.id for view in screen.app.query(TasksView) for row in view._table.rows}


async def test_it_opens_first_says_that_all_is_well_until_it_is_not_and_is_there_again_when_one_comes_back(
    database: str, connection: asyncpg.Connection
) -> None:
    assert {field.default for field in fields(ConsoleOptions) if field.name == "screen"} == {"overview"}
    await alive(connection, "web-1", "web-2")
    async with console(database, **OVERVIEW) as screen:
        text = await screen.sees("Healthy: 2 workers, 50% busy, no tasks waiting.", "no alerts", "Nothing needs action")
        assert "1 Overview" in text.splitlines()[1]
        await screen.sees("busy 50%", "window 5m [ ]")  # the workers have just started
        await send(connection, *(f"t-{n}" for n in range(30)), queue_name="'pay'", age_s=1)
        await screen.press("ctrl+r")
        await screen.sees("queue pay has no worker, 30 due", "Critical: queue pay has no worker, 30 due")
        await screen.press("2")
        await screen.sees("FOLLOW")
        await screen.press("1")
        await screen.sees("queue pay has no worker, 30 due", "window 5m")


async def test_a_number_of_a_queue_opens_exactly_its_tasks_and_of_all_queues_all(
    database: str, connection: asyncpg.Connection
) -> None:
    await alive(connection, "web-1")
    await send(connection, "due-1", "due-2", "later-1", queue_name="'mail'", age_s=90)
    await connection.execute("UPDATE horsies_tasks SET enqueued_at = now() + interval '1 h' WHERE id = 'later-1'")
    async with console(database, **OVERVIEW) as screen:
        text = await screen.sees("QUEUE", " mail ", "0/20")
        line = next(line for line in text.splitlines() if " mail " in line)
        assert line.split()[1:8] == ["mail", "3", "2", "1", "0", "0", "0/20"]
        await screen.press("l", "enter")
        await until(screen.pilot, lambda: shown_ids(screen) == {"due-1", "due-2"})
        await screen.press("1", "l", "enter")
        await until(screen.pilot, lambda: shown_ids(screen) == {"later-1"})
        await screen.sees("status:pending,retry -has:due queue:mail")
        # With more queues the first line is of all of them.
        await send(connection, "b", queue_name="'pay'", age_s=5)
        await screen.press("1", "ctrl+r")
        await screen.sees("all queues", "mail", "pay")
        await screen.press("home", "left", "enter")
        await until(screen.pilot, lambda: shown_ids(screen) == {"due-1", "due-2", "b"})


async def test_an_alert_opens_the_rows_that_it_speaks_of(database: str, connection: asyncpg.Connection) -> None:
    await alive(connection, "web-1")
    await ended(connection, 12, within_s=300, status="FAILED", error_code="'RATE_LIMITED'")
    await ended(connection, 3, within_s=300, status="FAILED", error_code="'TIMEOUT'")
    await ended(connection, 5, within_s=1, status="FAILED", error_code="'RATE_LIMITED'", task_name="'shop.old'")
    await connection.execute("UPDATE horsies_tasks SET failed_at = now() - interval '1 h' WHERE task_name = 'shop.old'")
    surging = await connection.fetch(
        "SELECT id FROM horsies_tasks WHERE error_code = 'RATE_LIMITED' AND task_name <> 'shop.old'"
    )
    async with console(database, **OVERVIEW) as screen:
        await screen.sees("Degraded: RATE_LIMITED surges.", "12 in 10m, usually 0")
        await screen.press("tab", "enter")
        await until(screen.pilot, lambda: shown_ids(screen) == {row["id"] for row in surging})
        await screen.sees("status:failed error:RATE_LIMITED ended:>=20")
        await screen.press("escape", "escape")  # the filter, then back to the previous screen
        await screen.sees("Degraded: RATE_LIMITED surges.")
        await screen.press("escape")
        await screen.sees("Degraded: RATE_LIMITED surges.")


async def test_an_alert_about_schedules_opens_them(database: str, connection: asyncpg.Connection) -> None:
    await add_schedule(connection, "nightly", definition(), next_s=-400)
    await add_schedule(connection, "calm", definition(), next_s=400)
    await add_scheduler(connection, "nightly", "calm")
    async with console(database, screen="overview") as screen:
        await screen.sees("schedule nightly is overdue")
        await screen.press("tab", "enter")
        await screen.sees("name:nightly", "1 of 2 match", "due for 6m")
        await screen.press("escape", "escape")
        await screen.sees("Critical: schedule nightly is overdue.")


async def paused(conn: asyncpg.Connection) -> list[str]:
    rows = await conn.fetch("SELECT queue_name FROM horsies_queue_state WHERE paused_at IS NOT NULL")
    return [row["queue_name"] for row in rows]


async def test_a_queue_is_paused_and_resumed_by_keys_and_its_row_says_who_paused_it_and_why(
    database: str, connection: asyncpg.Connection
) -> None:
    await alive(connection, "web-1", queues="{mail,pay}")
    await send(connection, "due-1", queue_name="'mail'", age_s=10)
    async with console(database, (160, 40), **OVERVIEW) as screen:
        await screen.sees("all queues", " mail ", " pay ")
        assert {"P pause", "U resume"}.isdisjoint(screen.text.splitlines()[-1].split("  "))
        await screen.press("P")
        await screen.sees("pause does not apply to 'all queues'; select one queue")
        await screen.press("down", "P")
        await screen.sees("Pause 1 queue", "1 will be paused", "horsies queues pause mail", "Reason")
        await screen.press(*"moves", "ctrl+y")
        text = await screen.sees("1 paused", "paused ", ": moves", "queue mail is paused, 1 due")
        row = next(line for line in text.splitlines() if line.split()[1:2] == ["mail"])
        assert f"by {Actor.current().os_user}@" in row
        assert await paused(connection) == ["mail"]
        await screen.press("escape")
        await screen.sees("U resume")
        assert "P pause" not in screen.text.splitlines()[-1]
        await screen.press("U")
        await screen.sees("Resume 1 queue", "1 will continue")
        await screen.press("ctrl+y")
        await screen.sees("1 resumed")
        await screen.loses("queue mail is paused")
        assert await paused(connection) == []
        await screen.press("z")
        await screen.sees("Undo 1 queue", "ctrl+y")
        await screen.press("ctrl+y")
        await screen.sees("queue mail is paused, 1 due")
        assert await paused(connection) == ["mail"]
        await screen.press("tab", "P")
        await screen.sees("pause: select a queue")


async def test_an_outage_is_a_band_without_data_and_what_operators_did_is_marked(
    database: str, connection: asyncpg.Connection
) -> None:
    """An outage was a time in which nothing ended, as if there had been nothing to do."""
    await alive(connection, "web-1")
    await ended(connection, 1200, within_s=7200)
    await connection.execute(
        "INSERT INTO horsies_outages (began_at, ended_at) VALUES (now() - interval '34 min', now() - interval '10 min')"
    )
    await connection.execute(
        "SET session_replication_role = replica;"  # a trigger gives each action its true time
        "INSERT INTO horsies_operator_actions (operation_id, acted_at, verb, target_kind, target_id, outcome)"
        " VALUES (gen_random_uuid(), now() - interval '42 min', 'pause', 'queue', 'mail', 'applied');"
        "RESET session_replication_role"
    )
    async with console(database, **OVERVIEW) as screen:
        text = await screen.sees("no data", "░░░", "finished/s 0.", "1h ago")
        axis = next(line for line in text.splitlines() if "1h ago" in line)
        assert "*" in axis
        assert "xxxxx" in axis
        assert "⣿⣿" in text


async def test_without_tasks_it_does_not_pretend_and_its_window_is_one_that_the_data_fill_until_one_is_chosen(
    database: str, connection: asyncpg.Connection
) -> None:
    async with console(database, **OVERVIEW) as screen:
        await screen.sees("No worker yet; no tasks waiting.", "No queue has tasks", "No charts yet: they start with")
        await screen.sees("window 1h [ ]")
        await ended(connection, 12, within_s=600)
        await screen.press("ctrl+r")
        await screen.sees("window 30m [ ]", "30m ago", "finished/s 0.0")
        await screen.press("right_square_bracket")
        await screen.sees("window 1h [ ]", "1h ago")
        await screen.press("ctrl+r")
        await screen.sees("window 1h [ ]", "1h ago")


async def test_an_arrow_reads_all_charts_at_another_time_and_opens_its_tasks(
    database: str, connection: asyncpg.Connection
) -> None:
    await ended(connection, 5, within_s=1)
    await ended(connection, 30, within_s=1, status="FAILED", error_code="'TIMEOUT'")
    at = await connection.fetchval(
        "UPDATE horsies_tasks SET failed_at = made.at, started_at = made.at - interval '3 s',"
        " enqueued_at = now() - interval '2 h', created_at = now() - interval '2 h'"
        " FROM (SELECT date_trunc('minute', now()) - interval '9 min 30 s' AS at) AS made"
        " WHERE status = 'FAILED' RETURNING failed_at"
    )
    time = f"{at:%H:%M:%S}Z"
    async with console(database, **OVERVIEW) as screen:
        await screen.sees("finished/s 0.", "run p95", "window 30m [ ]")
        grid = screen.app.query_one(ChartGrid)
        await screen.press("shift+tab")
        await until(screen.pilot, lambda: grid.has_focus)
        while grid.reading is None or grid.reading.time != time:
            await screen.press("left")
        text = await screen.sees(time, "finished/s 1.0", "failed/s 1.0", "run p95 3.0s  p50 3.0s", "│")
        assert text.count(time) == 5  # not below the chart of busy processes, which has no data
        await screen.press("down", "down", "enter")
        await screen.sees(f"status:failed ended:{at:%Y-%m-%dT%H:%M:%SZ}..", "FOLLOW")
        await until(screen.pilot, lambda: len(shown_ids(screen)) == 30)
        await screen.press("1")
        await until(screen.pilot, lambda: grid.has_focus or screen.app.query_one("#queues").has_focus)
        if not grid.has_focus:
            await screen.press("shift+tab")
        await screen.press(*["right"] * 60)
        assert grid.reading is None
        await screen.sees("finished/s 0.", "run p95 2.0s")


async def test_a_chart_whose_data_stay_is_not_drawn_again(database: str, connection: asyncpg.Connection) -> None:
    await ended(connection, 60, within_s=3000)
    async with console(database, **OVERVIEW) as screen:
        await screen.sees("finished/s", "window 1h")
        grid = screen.app.query_one(ChartGrid)
        await until(screen.pilot, lambda: grid.times_drawn >= 6)
        view = screen.app.query_one(OverviewView)
        assert view.feed is not None
        view.feed.stop()
        await screen.pilot.pause()
        drawn = grid.times_drawn
        for _ in range(3):
            view.draw(view._snapshot)
        assert grid._buckets is not None
        grid.show(grid._charts, grid._buckets, zone=grid._zone)
        assert grid.times_drawn == drawn
        await screen.press("shift+tab")
        await until(screen.pilot, lambda: grid.has_focus)
        assert grid.times_drawn == drawn + 1


@pytest.mark.parametrize("plain", [False, True])
async def test_at_80x24_there_are_verdict_counts_queues_and_sparks(
    database: str, connection: asyncpg.Connection, plain: bool
) -> None:
    await alive(connection, "web-1")
    await ended(connection, 600, within_s=3600)
    await send(connection, "due-1", queue_name="'mail'", age_s=400)
    async with console(database, (80, 24), ascii=plain, **OVERVIEW) as screen:
        text = await screen.sees(
            "Degraded: mail is over its 5m target", "finished/s 0.", "waiting 1", "busy 50%", "TREND"
        )
        lines = text.splitlines()
        assert max(map(len, lines)) <= 80
        assert "ago" not in "".join(lines[3:6])
        assert any(bar in lines[3] for bar in ("#" if plain else "█▇"))
        assert not plain or text.isascii()
