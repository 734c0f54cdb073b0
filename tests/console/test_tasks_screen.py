"""The tasks screen on a real database with thousands of rows: content, keys and bars of progress."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import asyncpg
import pytest
from database_server import DatabaseServer
from flow_steps import flows
from task_rows import fill
from task_steps import console
from verb_steps import until

from horsies_tui.look.units import count

ROWS = 6_000


@pytest.fixture(scope="module")
def shop(server: DatabaseServer) -> Iterator[str]:
    """A database with many rows that no test changes."""

    async def make() -> None:
        connected = await asyncpg.connect(url)
        await fill(connected, ROWS)
        await connected.close()

    with server.database() as url:
        asyncio.run(make())
        yield url


async def send(conn: asyncpg.Connection, *ids: str, status: str = "PENDING", queue: str = "mail") -> None:
    await conn.execute(
        "INSERT INTO horsies_tasks (id, task_name, queue_name, status, sent_at)"
        " SELECT id, 'send_confirmation', $2, $3, now() FROM unnest($1::text[]) AS new (id)",
        list(ids),
        queue,
        status,
    )


async def test_the_newest_are_shown_with_counts_and_the_size_of_the_table_at_every_size(shop: str) -> None:
    async with console(shop) as screen:
        await screen.sees("▌  ⊘ cancelled   …00000001", "▶ 20", "◔ 10", "6,000 in table", "FOLLOW")
        assert len(screen.rows) == 34
        for size in ((200, 60), (100, 30), (80, 24)):
            await screen.resize(*size)
            text = await screen.sees("filter, for example", "NAME", "FOLLOW", "charge_card", "▶")
            assert len(screen.rows) == size[1] - 6
            assert all(len(line) <= size[0] for line in text.splitlines())


async def test_a_filter_narrows_rows_and_counts_and_a_wrong_one_says_what_is_wrong(shop: str) -> None:
    async with console(shop, filter="status:faild") as screen:
        # On the command line it is opened where it is wrong.
        await screen.sees("/ status:faild", "status cannot be 'faild'")
        await screen.press("tab", "enter")
        await screen.sees("/ status:failed", "match")
        await screen.press("e", "e")
        await screen.sees("by error code", "RATE_LIMITED", "TIMEOUT", "SHARE")
        biggest = screen.cursor.split()
        assert biggest[-1] == "RATE_LIMITED"
        await screen.press("enter")
        await screen.sees("/ status:failed error:RATE_LIMITED", f"{biggest[1]} match")
        await screen.press("e", "u")
        await screen.sees("by queue", "QUEUE")
        await screen.press("escape")
        await screen.sees("STATE")
        await screen.filter("status:failed error:TIMEOUT name:charge_card")
        await screen.sees("TIMEOUT", "match · about 6,000 in table")
        await until(screen.pilot, lambda: all("charge_card" in row and "TIMEOUT" in row for row in screen.rows))
        assert screen.rows
        await screen.filter("queue:nowhere")
        await screen.sees("No task matches. Searched all of about 6,000 rows. esc clears the filter.")
        await screen.press("escape")
        await screen.sees("FOLLOW", "render_invoice")
        await screen.filter("staus:failed")
        await screen.sees("there is no key 'staus'; did you mean status?", "render_invoice")
        await screen.press("tab", "enter")
        await screen.sees("/ status:failed", "match")


async def test_an_empty_database_says_so_fills_by_itself_and_is_not_counted_by_rows_that_were_read_long_ago(
    database: str, connection: asyncpg.Connection
) -> None:
    """A list that had grown beyond 200 rows was counted by them, of which only the first 200 are read again."""
    async with console(database) as screen:
        await screen.sees("No tasks yet.")
        await send(connection, "t000")
        await screen.sees("▌  · pending", "t000")
        await send(connection, *(f"t{number:03}" for number in range(1, 150)))
        await screen.sees("150 pending", "FOLLOW")
        await send(connection, *(f"t{number}" for number in range(150, 230)))
        await screen.sees("230 pending", "230 tasks")
        await connection.execute("UPDATE horsies_tasks SET status = 'FAILED', failed_at = now() WHERE id < 't009'")
        await screen.sees("9 failed", "221 pending")


async def test_following_lets_the_newest_in_and_a_step_away_holds_them(
    database: str, connection: asyncpg.Connection
) -> None:
    await fill(connection, 300)
    async with console(database) as screen:
        await screen.sees("FOLLOW")
        first = screen.cursor
        await send(connection, "n-000001")
        await screen.sees("· pending     n-000001")
        assert screen.cursor.split()[:3] == first.split()[:3]
        await screen.press("j")
        row = screen.cursor
        await send(connection, *(f"n-{number:06}" for number in range(2, 39)))
        await screen.sees("+37 newer ↑")
        assert screen.cursor.split()[:3] == row.split()[:3]
        assert "n-000038" not in screen.text
        await screen.press("f")
        await screen.sees("▌  · pending     n-000038", "FOLLOW")
        await screen.loses("newer ↑")


async def test_the_table_is_walked_to_both_ends_to_a_time_into_a_task_and_in_another_order(shop: str) -> None:
    async with console(shop) as screen:
        await screen.sees("FOLLOW")
        await screen.press("G")
        await screen.sees("▌", "…00001770")
        assert screen.cursor == screen.rows[-1]
        assert "00001770" in screen.cursor
        await screen.press("k", "g")
        await screen.sees("▌  ⊘ cancelled   …00000001", "FOLLOW")
        # `enter` opens the task, and `escape` comes back to its row.
        await screen.press("j", "j", "enter")
        await screen.loses("STATE  ")
        await screen.press("escape")
        await screen.sees("STATE  ")
        assert "…00000003" in screen.cursor
        assert "FOLLOW" not in screen.text
        await screen.press("ctrl+g", *"30m", "enter")
        await until(screen.pilot, lambda: " 30m " in screen.cursor, "the cursor is at a task of 30 minutes ago")
        assert screen.cursor == screen.rows[0]
        assert "FOLLOW" not in screen.text
        await screen.press("pageup", "pageup")
        await until(screen.pilot, lambda: " 29m " in screen.text, "what is newer is above it")
        await screen.press("s")
        await screen.sees("newest first", "next to be claimed")
        await screen.press("o")
        await screen.sees("oldest first", "…00001770")
        assert "00001770" in screen.cursor
        await screen.press("s", "r")
        await screen.sees("longest running")
        assert screen.rows
        assert all("running" in row for row in screen.rows)


async def test_a_click_on_a_count_a_menu_of_columns_and_the_palette_change_what_is_shown(shop: str) -> None:
    async with console(shop) as screen:
        await screen.sees("▶ 20")
        place = screen.text.splitlines()[3].index("▶")
        await screen.pilot.click("#counts", offset=(place, 0))
        await screen.sees("/ status:running", "20 match")
        await screen.pilot.click("#counts", offset=(place, 0))
        await screen.sees("filter, for example", "FOLLOW")
        await screen.sees("WORKER")
        await screen.press("c", *["down"] * 9, "space", "enter")
        await screen.loses("WORKER")
        await screen.press("c", *["down"] * 9)
        await screen.sees("[ ]")
        await screen.press("space", "enter")
        await screen.sees("WORKER")
        await screen.press("ctrl+p", *"filter stuck")
        await screen.sees("status:running run:>10m")
        await screen.press("enter")
        await screen.sees("/ status:running run:>10m", "match")


async def test_counts_that_stop_at_a_bound_say_how_far_back_they_go_and_go_on_until_they_are_exact(shop: str) -> None:
    connected = await asyncpg.connect(shop)
    exact = await connected.fetchval(
        "SELECT count(*) FROM horsies_tasks WHERE queue_name = 'mail' AND status = 'COMPLETED'"
    )
    await connected.close()
    async with console(shop, filter="queue:mail status:completed") as screen:
        await screen.sees("at least ", " match, counted back to ")
        await screen.sees(f"✓ {count(exact)} completed", f"{count(exact)} match")
        assert "at least" not in screen.text
        await screen.press("e", "n")
        await screen.sees("by task name", "100%", "send_confirmation")


async def test_a_session_ends_without_anything_left_running(shop: str) -> None:
    before = asyncio.all_tasks()
    async with console(shop) as screen:
        await screen.sees("FOLLOW")
        await screen.press("slash")
        await screen.sees("apply")
        assert "/ filter " not in screen.text.splitlines()[-1]
    await asyncio.gather(*(task for task in asyncio.all_tasks() - before if task.cancelling()), return_exceptions=True)
    assert asyncio.all_tasks() == before


RUNNING = """
INSERT INTO horsies_tasks (id, task_name, queue_name, status, claimed_by_worker_id, worker_hostname, claimed_at,
                           started_at, is_workflow_task)
SELECT name, name, 'default', 'RUNNING', 'web-1', 'web-1', now() - age, now() - age, name LIKE 'node%'
  FROM (VALUES ('import_rows', interval '30 s'), ('hung_import', '10 min'), ('count_lines', '30 s'),
               ('silent', '4 min'), ('node_a', '30 s'))
       AS made (name, age);
INSERT INTO horsies_heartbeats (task_id, sender_id, role) SELECT id, 'web-1', 'runner' FROM horsies_tasks;
INSERT INTO horsies_tasks (id, task_name, queue_name, status, claimed_at, started_at, completed_at)
SELECT 'old' || n, 'silent', 'default', 'COMPLETED', now() - interval '1 h', now() - interval '1 h',
       now() - interval '1 h' + interval '70 s'
  FROM generate_series(1, 20) n;
INSERT INTO horsies_workflows (id, name, status, started_at) VALUES ('flow-1', 'month_end', 'RUNNING', now());
INSERT INTO horsies_workflow_tasks (id, workflow_id, task_index, node_id, task_name, status, task_id, started_at)
VALUES ('n0', 'flow-1', 0, 'import_uk', 'node_a', 'RUNNING', 'node_a', now()),
       ('n1', 'flow-1', 1, 'report', 'report', 'PENDING', NULL, NULL);
"""


REPORT = """
INSERT INTO horsies_progress (task_id, started_at, done, total, unit, rate, gap_s, reported_at)
SELECT id, started_at, $2, $3, 'rows', $4, CASE WHEN $5::float8 > 0 THEN 1 ELSE 100 END, now() - $5 * interval '1 s'
  FROM horsies_tasks WHERE id = $1
    ON CONFLICT (task_id, started_at) DO UPDATE SET done = EXCLUDED.done, reported_at = EXCLUDED.reported_at
"""


async def scene(connection: asyncpg.Connection) -> None:
    await connection.execute(RUNNING)
    await connection.execute(REPORT, "import_rows", 3_400, 10_000, 120, 0)
    await connection.execute(REPORT, "hung_import", 7, 10, 0.5, 240)
    await connection.execute(REPORT, "count_lines", 1_234, None, 50, 0)
    await connection.execute(REPORT, "node_a", 5, 10, 0.1, 0)


async def test_the_list_shows_bars_and_says_how_old_a_report_is(database: str, connection: asyncpg.Connection) -> None:
    await scene(connection)
    async with console(database, (160, 24), filter="status:running") as screen:
        await screen.press("v")
        text = await screen.sees("━━────── 34 %", "50s left", "70 % 4m", "1,234 rows", "usually 1m10s")
        hung = next(line for line in text.splitlines() if "hung_import" in line)
        assert "70 %" in hung
        assert "left" not in hung
    async with console(database, (80, 24), filter="status:running") as screen:
        await screen.sees("34 %", "1,234 rows")
    async with console(database, (120, 24), filter="status:running", ascii=True) as screen:
        await screen.sees("==...... 34 %")


async def test_a_task_shows_its_bar_as_it_grows_or_the_usual_duration(
    database: str, connection: asyncpg.Connection
) -> None:
    await scene(connection)
    async with console(database, task_id="import_rows") as screen:
        await screen.sees("progress", "34 % 3,400/10,000 rows 120/s")
        await connection.execute(REPORT, "import_rows", 9_000, 10_000, 120, 0)
        await screen.sees("90 % 9,000/10,000 rows 120/s")
    async with console(database, task_id="silent") as screen:
        await screen.sees("of usually 1m10s, 95 % of 20 runs within 1m10s")


async def test_a_node_and_its_workflow_count_it(database: str, connection: asyncpg.Connection) -> None:
    await scene(connection)
    async with flows(database) as screen:
        await screen.sees("━━━┅┅─────")
        await screen.press("enter")
        await screen.sees("25 %", "import_uk 50 %", "50 % 5/10 rows")
        await screen.press("g")
        await screen.sees("critical path", "50 %")
