"""The terminal's title shows the verdict, and its bell rings for a new alert: the bytes, and what is left behind."""

from __future__ import annotations

import asyncio
import os
import re
import signal
from pathlib import Path

import asyncpg
from pty_console import PtyConsole

TITLE = re.compile(rb"\x1b\]2;([^\x07\x1b]*)\x1b\\")
KEPT, GIVEN_BACK = b"\x1b[22;2t", b"\x1b]2;\x1b\\\x1b[23;2t"
FAILURES = """
INSERT INTO horsies_tasks (id, task_name, queue_name, status, error_code, sent_at, enqueued_at, failed_at)
SELECT 'f-' || n, 'shop.charge', 'pay', 'FAILED', 'RATE_LIMITED', now(), now(), now() FROM generate_series(1, 40) n
"""


def rings(console: PtyConsole) -> int:
    """How often the bell rang; Textual ends some of its sequences with the same character."""
    return re.sub(rb"\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)", b"", console.written).count(b"\a")


def configure(environ: dict[str, str], database: str, words: str, name: str = "shop") -> list[str]:
    path = Path(environ["XDG_CONFIG_HOME"]) / "horsies" / "config.toml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(f'{words}\n[contexts."{name}"]\nurl = "{database}"\n')
    return ["--context", name.encode().decode("unicode_escape")]


def titles(console: PtyConsole) -> list[str]:
    return [title.decode() for title in TITLE.findall(console.written)]


async def test_a_new_alert_rings_once_and_changes_the_title_which_is_given_back_at_the_end(
    database: str, environ: dict[str, str]
) -> None:
    connection = await asyncpg.connect(database)
    await connection.execute(
        "INSERT INTO horsies_tasks (id, task_name, queue_name, sent_at, enqueued_at)"
        " SELECT 't', 'shop.add', 'mail', at, at FROM (SELECT now() - interval '1 h' AS at) AS long_ago"
    )
    words = configure(environ, database, "bell = true", r"sh\u0007op\u001b]")
    with PtyConsole(environ, *words, screen="activity") as console:
        await asyncio.to_thread(
            console.until_so, lambda: "horsies sh op ] ● Critical, 1 alert" in titles(console), "the title"
        )
        assert titles(console)[0] == "horsies sh op ] ● connecting"
        assert console.written.count(KEPT) == 1
        assert rings(console) == 0, "what is there at the start is not new"
        written = console.written.count(b"\x1b]2;")
        await asyncio.to_thread(console.pass_time, 2.5)
        assert console.written.count(b"\x1b]2;") == written, "only what changes is written"
        await connection.execute(FAILURES)
        console.type("\x12")
        await asyncio.to_thread(
            console.until_so, lambda: "horsies sh op ] ● Critical, 2 alerts" in titles(console), "the title"
        )
        console.type("q")
        assert await asyncio.to_thread(console.end) == 0
        assert rings(console) == 1
        assert console.written.count(GIVEN_BACK) == 1
        assert console.is_as_found
    await connection.close()


async def test_the_title_is_given_back_on_a_signal_and_while_the_console_is_suspended(
    database: str, environ: dict[str, str]
) -> None:
    words = configure(environ, database, "")
    with PtyConsole(environ, *words, installed=True) as console:  # only of a child can be told that it has stopped
        await asyncio.to_thread(console.until_so, lambda: "horsies shop ● Healthy" in titles(console), "the title")
        console.type("\x1a")
        await asyncio.to_thread(console.until_so, lambda: console.written.count(GIVEN_BACK) == 1, "the title")
        await asyncio.to_thread(os.waitid, os.P_PID, console.process.pid, os.WSTOPPED | os.WNOWAIT)
        await asyncio.to_thread(console.until_so, lambda: console.is_as_found, "the terminal as it was found")
        console.process.send_signal(signal.SIGCONT)
        await asyncio.to_thread(console.until_so, lambda: console.written.count(KEPT) == 2, "the title")
        console.process.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(console.end) == 128 + signal.SIGTERM
        assert console.written.count(GIVEN_BACK) == 2


async def test_a_terminal_without_a_window_gets_no_title(database: str, environ: dict[str, str]) -> None:
    words = configure(environ, database, "")
    with PtyConsole({**environ, "TERM": "linux"}, *words) as console:
        await asyncio.to_thread(console.until, "LIVE")
        console.type("q")
        assert await asyncio.to_thread(console.end) == 0
        assert all(sequence not in console.written for sequence in (b"\x1b]2;", KEPT, b"\x1b[23;2t"))
