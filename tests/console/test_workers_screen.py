"""The workers screen on a real database, with real workers that are killed, drained and resumed."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from forked_commands import Command
from verb_steps import until
from worker_steps import Workers, grow_older, hold, tell, workers

from horsies_tui.task.view import DetailView

APPS = Path(__file__).parent.parent / "process"


@pytest.fixture
def worker(database: str) -> Iterator[subprocess.Popen[str]]:
    """`horsies worker` as a separate process, which claims two tasks more than it runs."""
    process = Command(
        ["worker", "worker_app:app", "--log-format", "json"],
        env={**os.environ, "HORSIES_DATABASE_URL": database, "TEST_PREFETCH": "2"},
        cwd=APPS,
        stderr=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        text=True,
    )
    yield process
    process.kill()
    process.wait()


async def send(conn: asyncpg.Connection, *ids: str) -> None:
    """Tasks that run for ten minutes."""
    await conn.execute(
        "INSERT INTO horsies_tasks (id, task_name, queue_name, args, kwargs, enqueue_sha)"
        " SELECT id, 'pause', 'default', $2, '{}', 'by-hand' FROM unnest($1::text[]) AS new (id)",
        list(ids),
        json.dumps([600]),
    )


async def statuses(conn: asyncpg.Connection) -> list[tuple[Any, ...]]:
    rows = await conn.fetch("SELECT status, error_code, count(*) FROM horsies_tasks GROUP BY 1, 2 ORDER BY 1")
    return [tuple(row) for row in rows]


async def trail(conn: asyncpg.Connection) -> list[tuple[Any, ...]]:
    rows = await conn.fetch(
        "SELECT verb, target_kind, outcome, os_user || '@' || os_host, count(*) FROM horsies_operator_actions"
        " GROUP BY 1, 2, 3, 4 ORDER BY 2 DESC"
    )
    return [tuple(row) for row in rows]


async def test_a_killed_worker_is_late_then_gone_and_one_key_puts_right_what_it_held(
    database: str, connection: asyncpg.Connection, worker: subprocess.Popen[str]
) -> None:
    await send(connection, "t-1", "t-2", "t-3")
    async with workers(database) as screen:
        await screen.sees("1 worker on 1 host", "♥ 1 alive", "1/1", "its last snapshot is")
        await screen.sees("1 running, 2 claimed; it has 1 process", "pause")
        worker.kill()
        worker.wait()
        await grow_older(connection, 15)
        await screen.sees("⚠ 1 late, holding 3 tasks", "⚠ late", "late after 12s")
        await grow_older(connection, 30)
        await screen.sees("✗ 1 lost, holding 3 tasks", "✗ lost", "lost after 30s", "it had 1 process")

        await screen.press("W")
        await screen.sees("Recover 1 worker", "2 claimed tasks: back in the queue", "1 running task", "ctrl+y")
        assert [status for status, _, _ in await statuses(connection)] == ["CLAIMED", "RUNNING"]
        await screen.press("ctrl+y")
        await screen.sees("1 recovered", "returned; acknowledged by ops@bastion")
        assert await statuses(connection) == [("FAILED", "WORKER_CRASHED", 1), ("PENDING", None, 2)]
        assert ("recover", "worker", "applied", "ops@bastion", 1) in await trail(connection)
        assert ("recover", "task", "applied", "ops@bastion", 3) in await trail(connection)


async def test_enter_opens_a_worker_with_the_tasks_it_holds_which_open_too_and_verbs_act_on_them(
    database: str, connection: asyncpg.Connection
) -> None:
    await hold(connection, await tell(connection, "web-1", 1), "older", status="CLAIMED", ago_s=90)
    await hold(connection, "web-1-1-0a", "young", status="CLAIMED")
    await tell(connection, "web-2", 2)
    async with workers(database) as screen:
        await screen.sees("older", "young")
        assert "C cancel" not in screen.text
        await screen.press("C")
        await screen.press("enter")
        await screen.loses("2 workers on")
        await screen.sees("── ♥ web-1:1", "id        web-1-1-0a", "memory 412M")
        assert "web-2" not in screen.text
        await screen.press("j", "enter")
        await until(screen.pilot, lambda: isinstance(screen.app.stage.top, DetailView))
        await screen.sees("young", "shop.mail")
        await screen.press("left_square_bracket")
        await screen.sees("older")
        await screen.press("escape")
        await screen.sees("── ♥ web-1:1")
        assert "older" in next(line for line in screen.text.splitlines() if line.startswith("▌"))
        await screen.press("escape")
        await screen.sees("2 workers on 2 hosts")
        await screen.press("tab")
        await screen.sees("C cancel")
        await screen.press("a", "C")
        await screen.sees("Cancel 2 tasks", "ctrl+y")
        await screen.press("ctrl+y")
        await screen.sees("2 cancelled", "It holds no task.")
    assert await statuses(connection) == [("CANCELLED", "TASK_CANCELLED", 2)]


async def test_a_filter_narrows_and_says_of_how_many_and_escape_takes_it_away(
    database: str, connection: asyncpg.Connection
) -> None:
    await tell(connection, "web-1", 1)
    await tell(connection, "db-1", 2, queues="'{bulk}'")
    await tell(connection, "web-2", 3, ago_s=600)
    async with workers(database) as screen:
        await screen.sees("3 workers on 3 hosts")
        await screen.filter("queue:bulk")
        await screen.sees("1 of 3 match")
        assert screen.names == ["db-1:2"]
        await screen.filter("status:dead")
        await screen.sees("status cannot be 'dead'", "did you mean died?")
        await screen.press("escape", "escape")
        await screen.sees("3 workers on 3 hosts")
        await screen.filter("host:nowhere")
        await screen.sees("No worker of 3 matches. esc clears the filter.")
        await screen.press("escape")
        await until(screen.pilot, lambda: len(screen.names) == 3)


async def test_who_no_longer_matches_stays_under_the_cursor_until_that_leaves_it(
    database: str, connection: asyncpg.Connection
) -> None:
    for pid in (1, 2, 3):
        await tell(connection, "web-1", pid)
    async with workers(database) as screen:
        await screen.sees("3 workers on 1 host")
        await screen.filter("status:alive")
        await screen.sees("3 of 3 match")
        await screen.press("j", "D")
        await screen.sees("Drain 1 worker", "ctrl+y")
        await screen.press("ctrl+y")
        await screen.sees("2 of 3 match", "2 workers on 1 host", "↓ draining")
        assert "web-1:2" in screen.cursor
        assert screen.view._table._struck == {"web-1-2-0a"}
        await screen.press("ctrl+r")
        await until(screen.pilot, lambda: "web-1:2" in screen.cursor and len(screen.names) == 3)
        await screen.press("U")
        await screen.sees("Resume 1 worker", "web-1-2-0a", "ctrl+y")
        await screen.press("escape", "j")
        await until(screen.pilot, lambda: "web-1:2" not in screen.cursor, "the cursor has left")
        other = screen.cursor.split()[3]
        await until(screen.pilot, lambda: screen.names == ["web-1:1", "web-1:3"], "it is gone")
        assert screen.cursor.split()[3] == other
        await screen.press("k")
        await screen.filter("status:draining")
        await until(screen.pilot, lambda: screen.names == ["web-1:2"], "another filter keeps nobody")


@pytest.mark.parametrize("size", [(120, 40), pytest.param((160, 50), marks=pytest.mark.chaos)])
async def test_room_that_the_list_does_not_need_goes_to_the_worker_under_the_cursor(
    database: str, connection: asyncpg.Connection, size: tuple[int, int]
) -> None:
    async def parts(screen: Workers) -> tuple[int, int, int]:
        await screen.pilot.pause()
        view = screen.view
        return view._table.size.height, view._story.size.height, view._held.size.height

    for pid in (1, 2, 3):
        await tell(connection, "web-1", pid)
    async with workers(database, size) as screen:
        await screen.sees("3 workers", "cpu 41%", "memory 412M")
        rows, story, held = await parts(screen)
        assert (rows, held) == (8, 8)
        assert rows + story + held == screen.view.size.height - 2  # the charts are as high as there is room
        assert screen.text.count("1h ago") == 3
        for pid in range(4, 60):
            await tell(connection, "web-1", pid)
        await screen.sees("59 workers")
        assert await parts(screen) == (screen.view.size.height - 20, 10, 8)
        await screen.press("enter")
        await screen.loses("59 workers")
        _, story, held = await parts(screen)
        assert story == pytest.approx(held * 2, abs=2)


async def test_hosts_sum_up_their_workers_and_enter_shows_those_of_one(
    database: str, connection: asyncpg.Connection
) -> None:
    for pid in (1, 2):
        await tell(connection, "web-1", pid)
    await tell(connection, "web-2", 3, horsies_version="'0.9.0'")
    await hold(connection, await tell(connection, "web-2", 4, ago_s=600), "t-1", "t-2", ago_s=600)
    async with workers(database) as screen:
        await screen.sees("4 workers on 2 hosts")
        await screen.press("e")
        text = await screen.sees("HOST", "VERSIONS, NOTE", "left 2 tasks")
        assert [line.split()[0] for line in text.splitlines() if " web-" in line] == ["▌", "web-1"]
        await screen.press("W")
        await screen.sees("Recover 1 worker", "2 running tasks", "ctrl+y")
        await screen.press("ctrl+y")
        await screen.sees("1 recovered")
        await screen.press("enter")
        await screen.sees("host:web-2", "2 of 4 match")
        assert set(screen.names) == {"web-2:3", "web-2:4"}


async def test_older_ones_come_when_they_are_asked_for(database: str, connection: asyncpg.Connection) -> None:
    await tell(connection, "web-9", 9, ago_s=7200)
    async with workers(database) as screen:
        await screen.sees("No worker was alive in the last hour", "horsies worker MODULE:APP starts one")
        await screen.press("w")
        await screen.sees("web-9:9", "held no task", "older ones too")


async def test_on_a_frozen_screen_no_age_passes_what_was_read_and_what_is_read_meanwhile_is_not_shown(
    database: str, connection: asyncpg.Connection
) -> None:
    await tell(connection, "web-1", 1)
    async with workers(database) as screen:
        await screen.sees("♥ 1 alive")
        feed = screen.view.feed
        async with connection.transaction():
            await connection.execute("LOCK TABLE horsies_worker_states IN ACCESS EXCLUSIVE MODE")
            await screen.press("ctrl+r")
            await until(screen.pilot, lambda: feed._reading is not None, "a read that waits for the lock")
            await screen.press("p")
            await screen.sees("FROZEN")
            rows, stands = feed.snapshot.rows, screen.view._now
            await grow_older(connection, 20)
        await until(screen.pilot, lambda: feed._reading is None, "the read is over")
        await screen.pilot.pause()
        assert feed.snapshot.rows == rows
        screen.app.link.clock._zero += timedelta(minutes=5)
        await screen.press("j")
        assert screen.view._now == stands
        await screen.sees("♥ alive")
        await screen.press("p")
        await screen.sees("⚠ 1 late")


async def test_an_order_that_always_moves_is_kept_while_keys_are_pressed(
    database: str, connection: asyncpg.Connection
) -> None:
    for pid in (1, 2):
        await tell(connection, "web-1", pid, ago_s=3, cpu_percent=str(10 * pid))
    async with workers(database) as screen:
        await screen.sees("2 workers")
        await screen.press("s", "c")
        await screen.sees("most cpu first")
        assert screen.names == ["web-1:2", "web-1:1"]
        await screen.press("space")
        await tell(connection, "web-1", 1, cpu_percent="95")
        await screen.sees("95%")
        assert screen.names == ["web-1:2", "web-1:1"]


async def test_plots_follow_the_window(database: str, connection: asyncpg.Connection) -> None:
    """Snapshots of the next two minutes are there, too: without them a minute that begins has no value."""
    await connection.execute(
        "INSERT INTO horsies_worker_states (worker_id, snapshot_at, hostname, pid, processes, max_claim_batch,"
        " max_claim_per_worker, queues, worker_started_at, tasks_running, cpu_percent)"
        " SELECT 'web-1-1-0a', now() - n * interval '5 s', 'web-1', 1, 8, 8, 8, '{mail}', now() - interval '20 min',"
        " greatest(n, 0) % 8, greatest(n, 0) % 100 FROM generate_series(-24, 200) n"
    )
    async with workers(database, (200, 50)) as screen:
        await screen.sees("last 30m", "busy 0/8", "cpu 0%", "30m ago")  # it is 20 minutes old
        await screen.press("left")
        await screen.sees("│", ":30Z" if ":30Z" in screen.text else ":00Z")
        await screen.press("right", "right_square_bracket")
        await screen.sees("last 1h", "busy 0/8", "cpu 0%", "1h ago")
        await screen.press("left_square_bracket", "left_square_bracket")
        await screen.sees("last 5m", "5m ago")
        await screen.press("left_square_bracket", *["right_square_bracket"] * 9)
        await screen.sees("last 24h", "24h ago")


@pytest.mark.parametrize(
    ("sizes", "ascii_only"), [([(200, 60), (120, 40), (100, 30), (80, 24)], False), ([(120, 40)], True)]
)
async def test_every_size_shows_state_load_evidence_plots_and_tasks(
    database: str, connection: asyncpg.Connection, sizes: list[tuple[int, int]], ascii_only: bool
) -> None:
    await hold(connection, await tell(connection, "web-1", 1, tasks_running="3"), "t-1", "t-2")
    await tell(connection, "web-2", 2, ago_s=600)
    async with workers(database, sizes[0], ascii=ascii_only) as screen:
        for size in sizes:
            await screen.resize(*size)
            await screen.sees("2 workers", "1 lost", "2/8", "412M" if size[0] < 160 else "312M", "busy", "cpu")
            text = await screen.sees("its last snapshot is", "t-1", "D drain")
            assert "W recover" not in text.splitlines()[-1]  # it is alive
            assert all(len(line) <= size[0] for line in text.splitlines())
            assert text.isascii() or not ascii_only
        parts = (screen.view._story.size.height, screen.view._held.size.height)
        assert size[1] > 24 or parts == (6, 4)  # a low screen keeps its parts
