"""Hostile text in every text column and every name of the config file: no byte of it controls the terminal.

Everything that the console writes is read as the console's own vocabulary; what is left over must be printable. So a
sequence is found wherever it comes from, whole or cut.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

import asyncpg
import pytest
from hostile_rows import TOKEN, fill_every_table
from pty_console import PtyConsole

from horsies_tui.actions import ACTIONS, Scope, action_of
from horsies_tui.shell.views import TABS, VIEWS

OWN = re.compile(
    rb"\x1b\[(?:\d{1,3}(?:;\d{1,3})*)?m"  # colours
    rb"|\x1b\[\d+;\d+H|\x1b\[\?(?:7|25|1000|1002|1003|1004|1006|1015|1016|1049|2004|2026|2031|2048)[hl]"
    rb"|\x1b\[\?2026\$p|\x1b\[\?2048\$p|\x1b\[[<>]\d*u|\x1b\[\?6n|\x1b\[22;2t|\x1b\[23;2t"
    rb"|\x1b\]52;c;[A-Za-z0-9+/]*=*\x07|\x1b\]22;\w*\x07"
)
TITLE = re.compile(rb"\x1b\]2;([^\x00-\x1f\x7f]*)\x1b\\")
NAME = f"{TOKEN}[/tmp/x][bold]\x1b]0;t\x07\u202e\x9b7m"
KEYS = {
    "space": " ",
    "enter": "\r",
    "tab": "\t",
    "escape": "\x1b",
    "slash": "/",
    "colon": ":",
    "at": "@",
    "delete": "\x7f",
}
KEYS |= {"exclamation_mark": "!", "question_mark": "?", "asterisk": "*", "left_square_bracket": "[", "plus": "+"}
KEYS |= {
    "right_square_bracket": "]",
    "minus": "-",
    "down": "\x1b[B",
    "up": "\x1b[A",
    "right": "\x1b[C",
    "left": "\x1b[D",
}
DOWN = "\x1b[B"
_ESCAPE_S = 0.15
"""Textual waits a tenth of a second for the rest of a sequence: a key that comes sooner is one with alt."""
NOT_PRESSED = {"app.freeze", "app.quit_now", "app.leave", "app.suspend", "picker.quit", "detail.editor", "sheet.close"}
"""They leave the console or a sheet, or let a screen stand still."""


class Shop(NamedTuple):
    server: asyncpg.Connection
    words: list[str]


class Recorded(PtyConsole):
    """Keeps everything that is written."""

    everything = b""
    at = 0.0

    def _take(self, part: bytes, at: float) -> None:
        self.everything += part
        super()._take(part, at)

    def settle(self, quiet: float = 0.05) -> None:
        """Wait until no byte has come for a while: the answer to a key is on the screen."""
        for _ in range(10):
            if not self.pass_time(quiet):
                return

    def keys(self, *typed: str) -> None:
        for each in typed:
            assert self.process.poll() is None, f"ended before {each!r}:\n{self.text}"
            self.type(each)
            self.settle(_ESCAPE_S if each == "\x1b" else 0.05)

    def hover(self, word: str) -> None:
        x, y = next((line.index(word), y) for y, line in enumerate(self.lines) if word in line)
        self.keys(f"\x1b[<35;{x + 2};{y + 1}M", f"\x1b[<35;{x + 3};{y + 1}M")


def assert_only_our_own(written: bytes) -> None:
    titles = TITLE.findall(written)
    rest = OWN.sub(b"", TITLE.sub(b"", written))
    found = re.search(r"[^\x20-\x7e\xa1-\U0010ffff\r\n]", rest.decode())
    where = "" if found is None else rest.decode()[max(found.start() - 60, 0) : found.end() + 60]
    assert found is None, f"{where!r}"
    assert not [char for char in rest.decode() if not char.isprintable() and char not in "\r\n"]
    assert all(title.decode().isprintable() for title in titles)


@pytest.fixture
async def shop(database: str, environ: dict[str, str], tmp_path: Path) -> AsyncIterator[Shop]:
    """A database with a hostile name, and a config file of hostile names; the words that start the console on it."""
    connection = await asyncpg.connect(database)
    await fill_every_table(connection)
    name = await connection.fetchval("SELECT current_database()")
    await connection.close()

    def url(to: str) -> str:
        return database.replace(f"/{name}", f"/{quote(to, safe='')}")

    server = await asyncpg.connect(url("postgres"))
    quoted = NAME.replace('"', '""')
    await server.execute(f'CREATE DATABASE "{quoted}" TEMPLATE "{name}"')
    contexts = {NAME: url(NAME), f"away{NAME}": url(f"{NAME}x")}
    lines: list[str] = []
    for context, where in contexts.items():
        lines += [f"[contexts.{toml(context)}]", f"url = {toml(where)}"]
    lines += [
        "[filters]",
        f"{toml(NAME)} = {toml(f'name:{json.dumps(NAME[:10])}')}",
        "[targets]",
        f'{toml(NAME)} = "1m"',
    ]
    for screen in ("workflows", "workers", "schedules", "activity"):
        lines += [
            f"[filters.{screen}]",
            f'{toml(NAME)} = "name:{TOKEN}"' if screen != "activity" else f'{toml(NAME)} = "by:x"',
        ]
    path = Path(environ["XDG_CONFIG_HOME"]) / "horsies" / "config.toml"
    path.parent.mkdir()
    path.write_text("\n".join(lines), "utf-8")
    yield Shop(server, ["--context", NAME])
    await server.execute(f'DROP DATABASE "{quoted}" WITH (FORCE)')
    await server.close()


def toml(text: str) -> str:
    return json.dumps(text)


def look_around(console: Recorded) -> None:
    """Every screen with its first row opened, the sheets and lists of the frame, completions, and a verb's preview."""
    for parts in (
        *((tab.key, DOWN, "\r", "\t") for tab in TABS),
        *(("@",), ("!",), ("?",), ("\x14",), ("\x10", TOKEN), ("\x10", "filter")),
        *(("2", "/"), ("/", "name:"), ("3", "/", "host:"), ("2", ":", "go t"), (":", "filter "), (":", "tasks queue:")),
        ("2", "a", "R", "\x0c", DOWN, "\x1b"),
    ):
        console.keys(*parts, DOWN, "\x1b", "\x1b")


def press_every_key(console: Recorded) -> None:
    """Each key of each screen, on its list and where its first row leads; what it opens is moved in, and closed."""
    common = [action for action in ACTIONS if action.scope in (Scope.APP, Scope.TABLE, Scope.BESIDE)]
    for tab in TABS:
        own = [action_of(str(binding.id)) for binding in VIEWS[tab.name].BINDINGS]
        for action in filter(None, (*own, *common)):
            if action.id not in NOT_PRESSED:
                key = action.keys[0]
                console.keys(tab.key, typed(key), DOWN, "\x1b", "\x1b")
    for tab, scopes in (("2", (Scope.DETAIL, Scope.STORY)), ("4", (Scope.GRAPH, Scope.WORKFLOW, Scope.FLOWS))):
        for action in (action for action in ACTIONS if action.scope in scopes and action.id not in NOT_PRESSED):
            console.keys(tab, "\r", typed(action.keys[0]), DOWN, "\x1b", "\x1b", "\x1b")


def typed(key: str) -> str:
    """The bytes of a key, as a terminal sends them."""
    if key.startswith("ctrl+") and len(key) == 6:
        return chr(ord(key[-1]) & 0x1F)
    return KEYS.get(key, key)


async def lose_and_find(console: Recorded, server: asyncpg.Connection) -> None:
    """Errors of the database have its name in them: the line above the screen, the list of errors and a tooltip."""
    quoted = NAME.replace('"', '""')
    await server.execute(f'ALTER DATABASE "{quoted}" ALLOW_CONNECTIONS false')
    await server.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1", NAME)
    await asyncio.to_thread(console.until, "not currently accepting connections")
    await asyncio.to_thread(console.keys, "1", "!")
    await asyncio.to_thread(console.until, "Last errors", "correct the URL or the server's")
    console.type("\x1b")
    await asyncio.to_thread(console.until_gone, "correct the URL or the server's")
    await asyncio.to_thread(console.hover, "STALE" if console.shows("STALE") else "DOWN")
    await asyncio.to_thread(console.until, "correct the URL or the server's")
    await server.execute(f'ALTER DATABASE "{quoted}" ALLOW_CONNECTIONS true')
    await asyncio.to_thread(console.keys, "\x12")
    await asyncio.to_thread(console.until, "LIVE")


async def lose_the_way(console: Recorded) -> None:
    """Go to a database that is not there: the sheet says so, with its name."""
    await asyncio.to_thread(console.keys, "@", "G", "\r")
    await asyncio.to_thread(console.until, "No connection", "there is no database")
    await asyncio.to_thread(console.keys, "g", "\r")
    await asyncio.to_thread(console.until, "LIVE")


@pytest.mark.parametrize("walk", [look_around, pytest.param(press_every_key, marks=pytest.mark.chaos)])
async def test_hostile_text_controls_nothing(
    walk: Callable[[Recorded], None], shop: Shop, environ: dict[str, str]
) -> None:
    with Recorded(environ, *shop.words, columns=160, rows=40, screen="overview") as console:
        await asyncio.to_thread(console.until, "LIVE", TOKEN)
        await asyncio.to_thread(walk, console)
        await lose_and_find(console, shop.server)
        await lose_the_way(console)
        console.type("\x03")
        assert await asyncio.to_thread(console.end) == 0, console.text
        assert_only_our_own(console.everything)
    assert console.everything.count(TOKEN.encode()) > 1_000, "it was on the screens"
