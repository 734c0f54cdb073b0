"""The user's editor has the terminal for itself; the letters of a reason are text."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import asyncpg
from pty_console import PtyConsole

EDITOR = """\
#!/bin/sh
trap 'echo INTERRUPTED' INT
stat -c '%a %n' "$1" > "$OUT"
cat "$1" >> "$OUT"
echo EDITING
while ! read line; do :; done
exit 0
"""
TASK = "019a7c2e-9999-7000-8000-0000feedf00d"


async def test_arguments_open_in_the_editor_which_takes_ctrl_c_and_leaves_nothing(
    quiet: dict[str, str], connection: asyncpg.Connection, tmp_path: Path
) -> None:
    await connection.execute(
        "INSERT INTO horsies_tasks (id, task_name, queue_name, status, kwargs, created_at)"
        " VALUES ($1, 'shop.charge', 'pay', 'FAILED', $2, now())",
        TASK,
        json.dumps({"order": 5, "api_token": "hunter2"}),
    )
    editor, out = tmp_path / "my editor", tmp_path / "out"
    await asyncio.to_thread(_prepare, editor, tmp_path / "horsies" / "config.toml")
    environ = {**quiet, "EDITOR": f"'{editor}'", "PAGER": "no-such-pager -R", "OUT": str(out), "TMPDIR": str(tmp_path)}
    with PtyConsole(environ, "task", TASK) as console:
        await asyncio.to_thread(_edit, console)
        mode_and_path, written = (await asyncio.to_thread(out.read_text)).split("\n", 1)
        mode, path = mode_and_path.split(" ", 1)
        assert mode == "600"
        assert path.endswith("/arguments-feedf00d.json")
        assert json.loads(written) == {"args": None, "kwargs": {"order": 5, "api_token": "***"}}
        assert not await asyncio.to_thread(Path(path).parent.exists)
        await asyncio.to_thread(_others, console)
        console.type("\x03")
        assert await asyncio.to_thread(console.end) == 0
        assert console.is_as_found


def _prepare(editor: Path, config: Path) -> None:
    editor.write_text(EDITOR)
    editor.chmod(0o755)
    config.parent.mkdir()
    config.write_text('mask_arguments = ["*token"]\n')


def _edit(console: PtyConsole) -> None:
    console.until("LIVE", "shop.charge", "order")
    console.type("e")
    console.until("Open in an editor")
    console.type("a")
    console.until("EDITING")
    console.type("\x03")  # ctrl+c is for the editor
    console.until("INTERRUPTED")
    assert console.process.poll() is None
    console.type("\r")
    console.until_gone("EDITING")  # the rest stood there before the editor began
    console.until("LIVE", "shop.charge", "api_token")


def _others(console: PtyConsole) -> None:
    console.type(":pager arguments\r")
    console.until("$PAGER names no-such-pager, which is not installed")
    console.type(":editor traceback\r")
    console.until("this task has no traceback")


SEND = """
INSERT INTO horsies_tasks (id, task_name, queue_name, created_at, enqueued_at)
SELECT gen_random_uuid(), $1, 'mail', clock_timestamp(), clock_timestamp() FROM generate_series(1, $2)
"""
REASON = "ERP back, retry: why quiz lazy jumbled foxes? QUICK BROWN FOX JUMPS OVER"


async def test_a_sentence_typed_as_a_reason_acts_on_nothing_and_ctrl_y_does(
    quiet: dict[str, str], connection: asyncpg.Connection
) -> None:
    await connection.execute("UPDATE horsies_tasks SET status = 'FAILED' WHERE id LIKE '%0001'")
    with PtyConsole(quiet, "--filter", "status:failed") as console:
        await asyncio.to_thread(console.until, "LIVE", "✗ failed")
        console.type("R")
        await asyncio.to_thread(console.until, "esc Back, change nothing", "ctrl+y Requeue 1 task")
        console.type(REASON + "\r")
        await asyncio.to_thread(console.until, "ctrl+y confirms, esc cancels")
        assert await connection.fetchval("SELECT count(*) FROM horsies_operator_actions") == 0
        console.type("\x19")
        await asyncio.to_thread(console.until, "1 requeued")
    assert await connection.fetchval("SELECT reason FROM horsies_operator_actions") == REASON
