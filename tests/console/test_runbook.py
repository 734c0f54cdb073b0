"""docs/runbook.md on the console: the keys written there are pressed, and repair the incident."""

from __future__ import annotations

import asyncio
import math
import re
import shlex
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from blackhole_proxy import BlackholeProxy
from feed_steps import send
from flow_steps import MONTH_END, month_end, node, workflow
from schedule_scene import add_schedule, add_scheduler, definition
from task_steps import Screen, console
from textual import events
from textual.widgets import TextArea
from typer.testing import CliRunner
from verb_steps import until
from worker_steps import hold, tell

from horsies.cli.main import app
from horsies_tui.actions import ACTIONS, action_of, key_name
from horsies_tui.shell.arguments_sheet import ArgumentsSheet
from horsies_tui.shell.error_list import ErrorSheet
from horsies_tui.shell.preview_sheet import PreviewSheet

RUNBOOK = (Path(__file__).parents[2] / "docs" / "runbook.md").read_text("utf-8")
SECTIONS = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", RUNBOOK, re.MULTILINE | re.DOTALL))
CONFIRM = "ctrl+y"

Scene = Callable[[asyncpg.Connection], Awaitable[None]]


async def killed(conn: asyncpg.Connection) -> None:
    web = await tell(conn, "web-3", 88, ago_s=600)
    await hold(conn, web, "ran", ago_s=600)
    await hold(conn, web, "claimed", status="CLAIMED", ago_s=600)


async def stopped(conn: asyncpg.Connection) -> None:
    await send(conn, "stopped")
    await conn.execute("UPDATE horsies_tasks SET status = 'FAILED', error_code = 'TASK_INTERRUPTED', failed_at = now()")


async def crashed(conn: asyncpg.Connection) -> None:
    await tell(conn, "web-1", 1)
    await send(conn, "burnt")
    await conn.execute(
        "UPDATE horsies_tasks SET status = 'FAILED', error_code = 'WORKER_CRASHED', started_at = now(),"
        " failed_at = now()"
    )


async def hangs(conn: asyncpg.Connection) -> None:
    await hold(conn, await tell(conn, "web-1", 1), "hung", ago_s=900)


async def burst(conn: asyncpg.Connection) -> None:
    await send(conn, "f-1", "f-2", "f-3", "other")
    await conn.execute(
        "UPDATE horsies_tasks SET status = 'FAILED', failed_at = now(),"
        " error_code = CASE WHEN id = 'other' THEN 'BROKE' ELSE 'RATE_LIMITED' END"
    )


async def paused_flow(conn: asyncpg.Connection) -> None:
    await month_end(conn)
    await conn.execute("UPDATE horsies_workflows SET status = 'PAUSED', error = '{}' WHERE id = $1", MONTH_END)


async def out_of_step(conn: asyncpg.Connection) -> None:
    await send(conn, "pay")
    await conn.execute(
        "UPDATE horsies_tasks SET status = 'FAILED', is_workflow_task = true, error_code = 'BROKE',"
        " failed_at = now() - interval '5 min', started_at = now() - interval '6 min'"
    )
    await workflow(conn, MONTH_END, "order")
    await node(conn, MONTH_END, 0, "pay", "RUNNING", task_id="'pay'")


async def paused_queue(conn: asyncpg.Connection) -> None:
    await tell(conn, "web-1", 1, queues="'{default}'")
    await send(conn, "waits")
    await conn.execute(
        "INSERT INTO horsies_queue_state (queue_name, paused_at, paused_by) VALUES ('default', now(), 'ops@bastion')"
    )


async def overdue(conn: asyncpg.Connection) -> None:
    await tell(conn, "web-1", 1, queues="'{default}'")
    await send(conn, "late", age_s=600)
    await conn.execute("UPDATE horsies_tasks SET good_until = now() - interval '5 min'")


async def backoff(conn: asyncpg.Connection) -> None:
    await send(conn, "waits")
    await conn.execute(
        "UPDATE horsies_tasks SET retry_count = 1, max_retries = 3, next_retry_at = now() + interval '1 h',"
        " enqueued_at = now() + interval '1 h'"
    )


async def mistake(conn: asyncpg.Connection) -> None:
    await send(conn, "n-1", "n-2", "retried", task_name="'nightly_report'")
    await conn.execute(
        "UPDATE horsies_tasks SET retry_count = 1, next_retry_at = now() + interval '1 h' WHERE id = 'retried'"
    )


async def restart(conn: asyncpg.Connection) -> None:
    await tell(conn, "web-1", 1)


async def poison(conn: asyncpg.Connection) -> None:
    await send(conn, "bad", task_name="'charge_card'", kwargs="""'{"order": 41, "amount": -5}'""")
    await conn.execute("UPDATE horsies_tasks SET status = 'FAILED', error_code = 'BAD_AMOUNT', failed_at = now()")


async def unknown(conn: asyncpg.Connection) -> None:
    await tell(conn, "web-1", 1, queues="'{default}'", task_names="'{demo.add}'")
    await send(conn, "resize-1", "resize-2", age_s=600, task_name="'resize_v2'")


async def scheduled(conn: asyncpg.Connection, next_s: float = 3_600) -> None:
    await add_schedule(conn, "nightly", definition(target="shop.report"), next_s=next_s)
    await add_scheduler(conn, "nightly")


async def not_sent(conn: asyncpg.Connection) -> None:
    await scheduled(conn, -400)


async def wrong(conn: asyncpg.Connection) -> None:
    await burst(conn)
    await conn.execute("DELETE FROM horsies_tasks WHERE id <> 'f-1'")


TASKS = "SELECT jsonb_object_agg(id, status) FROM horsies_tasks"
PLAYED: dict[str, tuple[Scene, str, str, str, int]] = {
    # heading: the scene, words on the screen before the first verb, a question, its answer, keys at most
    "a worker was killed (kill -9, out of memory, a lost host)": (
        killed, "web-3:88", TASKS, '{"ran": "FAILED", "claimed": "PENDING"}', 3,
    ),
    "a task crashed its process (a segfault, out of memory)": (crashed, "crashed", TASKS, '{"burnt": "PENDING"}', 3),
    "a deploy stopped tasks in the middle": (stopped, "interrupted", TASKS, '{"stopped": "PENDING"}', 3),
    "a task hangs": (hangs, "hung", TASKS, '{"hung": "FAILED"}', 2),
    "a burst of failures with one cause, which is mended now": (
        burst, "f-1", TASKS, '{"f-1": "PENDING", "f-2": "PENDING", "f-3": "PENDING", "other": "FAILED"}', 3,
    ),
    "a workflow is paused by a node that failed": (
        paused_flow, "month_end", "SELECT status FROM horsies_workflows WHERE depth = 0", "RUNNING", 4,
    ),
    "a workflow is inconsistent with its tasks": (
        out_of_step, "order", "SELECT status FROM horsies_workflows", "FAILED", 3,
    ),
    "a queue is paused, and its tasks wait": (
        paused_queue, "paused queue", "SELECT count(*)::text FROM horsies_queue_state WHERE paused_at IS NOT NULL",
        "0", 3,
    ),
    "tasks wait whose good_until has passed": (overdue, "late", TASKS, '{"late": "EXPIRED"}', 3),
    "a retry waits for an hour, and the cause is gone": (
        backoff, "waits", "SELECT (enqueued_at <= now())::text FROM horsies_tasks", "true", 2,
    ),
    "something was sent by mistake and has not begun": (
        mistake, "n-1", TASKS, '{"n-1": "CANCELLED", "n-2": "CANCELLED", "retried": "PENDING"}', 3,
    ),
    "a host is to be restarted": (
        restart, "web-1:1", "SELECT string_agg(worker_id, ' ') FROM horsies_worker_orders", "web-1-1-0a", 2,
    ),
    "one task has arguments that can never work": (
        poison, "BAD_AMOUN", "SELECT string_agg(status || ' ' || (kwargs::json ->> 'amount'), ', ' ORDER BY status)"
        " FROM horsies_tasks", "FAILED -5, PENDING 5", 11,
    ),
    "tasks wait and no worker knows their name": (
        unknown, "unknown name", TASKS, '{"resize-1": "CANCELLED", "resize-2": "CANCELLED"}', 3,
    ),
    "a schedule did not send its run": (
        not_sent, "schedule overdue", "SELECT string_agg(task_name || ' ' || status, ', ') FROM horsies_tasks",
        "shop.report PENDING", 3,
    ),
    "a schedule must not run for a while": (
        scheduled, "1 scheduled", "SELECT max(schedule_name) FROM horsies_schedules WHERE paused_at IS NOT NULL",
        "nightly", 2,
    ),
    "the last action was wrong": (wrong, "f-1", TASKS, '{"f-1": "FAILED"}', 2),
}  # fmt: skip


BEFORE = {"the last action was wrong": ["2", "R", CONFIRM]}
"""Keys that make the incident first."""
EDITING = {"down", "left", "end", "backspace"}
"""Keys for editing arguments."""


def keys_of(section: str) -> list[str]:
    found = re.search(r"^Keys: `(.+)`$", section, re.MULTILINE)
    return found[1].split() if found else []


def options_of(section: str) -> dict[str, Any]:
    """The options of the command that opens the console."""
    found = re.search(r"^Start: `horsies tui (.+)`$", section, re.MULTILINE)
    words = shlex.split(found[1]) if found else []
    given = dict(zip((word.removeprefix("--") for word in words[::2]), words[1::2], strict=True))
    return {"screen": "tasks" if "filter" in given else "overview", **given}


@pytest.mark.parametrize("heading", PLAYED)
async def test_the_keys_of_the_runbook_repair_it(database: str, connection: asyncpg.Connection, heading: str) -> None:
    scene, seen, question, answer, most = PLAYED[heading]
    keys = keys_of(SECTIONS[heading])
    assert 0 < len(keys) <= most
    await scene(connection)
    async with console(database, (160, 45), **options_of(SECTIONS[heading])) as screen:
        await screen.sees("LIVE")
        await press(screen, BEFORE.get(heading, []), seen)
        await press(screen, keys, seen)
        wanted = await connection.fetchval("SELECT $1::jsonb::text", answer) if answer.startswith("{") else answer
        await repaired(screen, connection, question, wanted)


async def test_keys_in_one_burst_confirm_nothing_as_the_runbook_says(
    database: str, connection: asyncpg.Connection
) -> None:
    assert "ignored if both are typed in one burst" in RUNBOOK
    await crashed(connection)
    async with console(database, (160, 45), screen="recovery") as screen:
        await screen.sees("LIVE", "crashed")
        for key in ("R", CONFIRM):
            screen.app.simulate_key(key)
        await screen.sees("Requeue 1 task", "ctrl+y was ignored: it came before these rows were shown")
        await until(screen.pilot, lambda: asks(screen), "the sheet takes a confirmation")
        late = events.Key(CONFIRM, None)
        late.time -= 60  # it was typed with the burst, and a busy machine handles it only now
        screen.app.post_message(late)
        await screen.pilot.pause()
        assert await connection.fetchval("SELECT count(*) FROM horsies_operator_actions") == 0
        await press(screen, [CONFIRM], "")
        await repaired(screen, connection, TASKS, '{"burnt": "PENDING"}')


ID = {
    "a task hangs": "hung",
    "one task has arguments that can never work": "bad",
    "a workflow is paused by a node that failed": MONTH_END,
    "a workflow is inconsistent with its tasks": MONTH_END,
}
"""What stands for `ID` in the command of a section."""


NOT_ALONE = {"the last action was wrong", "a host is to be restarted"}
"""Their commands name an operation that was just made, or are followed by others."""


def command_of(section: str) -> list[str]:
    """The last command of the line `From a shell`, which is the one that repairs."""
    (line,) = re.findall(r"^From a shell: (.+)$", section, re.MULTILINE)
    return shlex.split(re.findall(r"`horsies ([^`]+)`", line)[-1])


@pytest.mark.parametrize("heading", [heading for heading in PLAYED if heading not in NOT_ALONE])
async def test_the_command_of_the_runbook_repairs_it_too(
    database: str, connection: asyncpg.Connection, heading: str
) -> None:
    scene, _, question, answer, _ = PLAYED[heading]
    await scene(connection)
    words = [ID[heading] if word == "ID" else word for word in command_of(SECTIONS[heading])]
    done = await asyncio.to_thread(CliRunner().invoke, app, [*words, "--yes", "--database-url", database])
    assert done.exit_code == 0, done.output
    wanted = await connection.fetchval("SELECT $1::jsonb::text", answer) if answer.startswith("{") else answer
    assert str(await connection.fetchval(question)) == wanted


async def press(screen: Screen, keys: list[str], seen: str) -> None:
    """Like an operator: the next key once the screen is shown."""
    confirm = action_of("preview.confirm")
    assert confirm is not None
    for key in keys:
        if key.isupper():
            await screen.sees(seen)
        if key in EDITING:
            await until(screen.pilot, lambda: edits(screen), "the arguments are there")
        if key == CONFIRM:
            await until(screen.pilot, lambda: asks(screen), "a sheet asks")
            await screen.press(*confirm.keys)
            await until(screen.pilot, lambda: not asks(screen), "the sheet has done it")
        else:
            name = key_name(key)
            assert name is not None
            await screen.press(name)


def edits(screen: Screen) -> bool:
    sheet = screen.app.screen
    return isinstance(sheet, ArgumentsSheet) and not sheet.query_one(TextArea).read_only


def asks(screen: Screen) -> bool:
    sheet = screen.app.screen
    return isinstance(sheet, PreviewSheet) and sheet._armed_at < math.inf


async def repaired(screen: Screen, conn: asyncpg.Connection, question: str, wanted: str) -> None:
    async with asyncio.timeout(10):
        while (found := str(await conn.fetchval(question))) != wanted:
            await screen.pilot.pause()
    assert found == wanted


async def test_a_task_says_what_it_waits_for(database: str, connection: asyncpg.Connection) -> None:
    section = SECTIONS["a task waits, and it is not clear why"]
    await paused_queue(connection)
    async with console(database, (160, 45), **options_of(section)) as screen:
        await screen.sees("LIVE", "demo.add")
        await press(screen, keys_of(section), "")
        await screen.sees("paused", "ops@bastion")


async def test_an_outage_is_named_and_over_at_once(database: str, connection: asyncpg.Connection) -> None:
    section = SECTIONS["the status cell says STALE or DOWN"]
    await send(connection, "before")
    async with BlackholeProxy(database) as proxy, console(proxy.url, (160, 45), **options_of(section)) as screen:
        await screen.sees("LIVE", "QUEUE", "default")
        proxy.refuse(10_000)
        proxy.cut()
        await screen.sees("STALE", "figures of ")
        show, close, again = keys_of(section)
        await press(screen, [show], "")
        await until(screen.pilot, lambda: isinstance(screen.app.screen, ErrorSheet), "the list of errors is open")
        await screen.sees("starting up")
        await press(screen, [close], "")
        proxy.refuse(0)
        await press(screen, [again], "")
        await screen.sees("LIVE")
        assert "figures of " not in screen.text


async def test_a_session_that_holds_a_lock_is_named_and_ended(database: str, connection: asyncpg.Connection) -> None:
    section = SECTIONS["the status cell says BLOCKED"]
    psql = await asyncpg.connect(database, server_settings={"application_name": "psql"})
    async with console(database, (120, 30), **options_of(section)) as screen:
        show, _ = keys_of(section)
        await screen.sees("LIVE")
        await press(screen, [show], "")
        await screen.sees("no other session blocks this one")
        await psql.execute("BEGIN; LOCK TABLE horsies_tasks IN ACCESS EXCLUSIVE MODE")
        pid = psql.get_server_pid()
        await screen.sees(f"by pid {pid}", f"ends it: blocked by pid {pid} psql")
        await press(screen, keys_of(section), "")
        await screen.sees("LIVE", "1 terminated")
    assert psql.is_closed()
    audited = await connection.fetchrow("SELECT verb, target_kind, target_id, outcome FROM horsies_operator_actions")
    assert tuple(audited) == ("terminate", "session", str(pid), "applied")


async def test_a_view_that_cannot_be_read_names_the_place_and_reads_again(
    database: str, connection: asyncpg.Connection
) -> None:
    section = SECTIONS["the status cell says FAILED"]
    async with console(database, (160, 45), screen="tasks") as screen:
        await screen.sees("LIVE", "No tasks yet")
        await connection.execute("ALTER TABLE horsies_tasks RENAME COLUMN priority TO importance")
        await screen.press("ctrl+r")
        await screen.sees("FAILED", "does not exist")
        show, close, again = keys_of(section)
        await press(screen, [show], "")
        await screen.sees("horsies/views/")
        await press(screen, [close], "")
        await connection.execute("ALTER TABLE horsies_tasks RENAME COLUMN importance TO priority")
        await press(screen, [again], "")
        await screen.sees("LIVE")
        await screen.loses("does not exist")


async def test_last_night_is_shown_and_not_what_happened_since(database: str, connection: asyncpg.Connection) -> None:
    section = SECTIONS["what happened last night"]
    await send(connection, "night", "noon")
    await connection.execute(
        "UPDATE horsies_tasks SET status = 'FAILED', error_code = upper(id), failed_at = date_trunc('day', now())"
        " - CASE id WHEN 'night' THEN interval '1 h' ELSE interval '12 h' END"
    )
    async with console(database, (160, 45), **options_of(section)) as screen:
        await screen.sees("LIVE")
        await press(screen, keys_of(section), "")
        await screen.sees("since:", "NIGHT")
        await screen.loses("NOON")


PLAYED_ALONE = {
    "a task waits, and it is not clear why",
    "what happened last night",
    "the status cell says BLOCKED",
    "the status cell says STALE or DOWN",
    "the status cell says FAILED",
}


def test_every_section_is_played_and_every_key_of_it_is_a_key() -> None:
    known = {key for action in ACTIONS for key in action.keys} | {CONFIRM} | EDITING
    named = {key for section in SECTIONS.values() for key in keys_of(section)}
    assert {key for key in named if key_name(key) not in known} == set()
    assert {*PLAYED, *PLAYED_ALONE} == set(SECTIONS)
    assert all(keys_of(section) for section in SECTIONS.values())
