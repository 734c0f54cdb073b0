"""The console in a browser: who gets in, what a tab is, and that none outlives its tab or its server."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psutil
import pytest
from aiohttp import ClientSession, ClientWebSocketResponse, CookieJar, WSServerHandshakeError
from forked_commands import Command
from typer.testing import CliRunner

from horsies.cli.main import app
from horsies_tui.serving.access import Access
from horsies_tui.serving.server import MOST_CALLERS, MOST_TABS, ConsoleServer

FAKE = """
import os, sys
os.write(1, b"__GANGLION__\\n")
told = b"size %s pid %d" % (os.environ["COLUMNS"].encode(), os.getpid())
os.write(1, b"D" + len(told).to_bytes(4, "big") + told)
{then}
"""
ENDS_WHEN_ASKED = "while data := os.read(0, 1000):\n    if b'quit' in data: break"
NEVER_ENDS = "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nsignal.pause()"


def alive(pid: int) -> bool:
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


async def until(holds: Callable[[], Any]) -> None:
    async with asyncio.timeout(30):
        while not holds():  # noqa: ASYNC110 - another process, of which no event tells
            await asyncio.sleep(0.02)


class Browser:
    """A client that has the cookie."""

    def __init__(self, session: ClientSession, server: ConsoleServer, base: str) -> None:
        self.session, self.server, self.base = session, server, base

    async def open(self, **headers: str) -> ClientWebSocketResponse:
        url = f"{self.base}{self.server.access.root}ws?width=91&height=30"
        return await self.session.ws_connect(url, headers={"Origin": self.base, **headers})


@asynccontextmanager
async def served(then: str = ENDS_WHEN_ASKED) -> AsyncIterator[Browser]:
    """A server whose consoles are imitations, which start in no time; a browser that has come with the token."""
    server = ConsoleServer([sys.executable, "-c", FAKE.format(then=then)], {}, Access("127.0.0.1"), "<shop>")
    base = f"http://127.0.0.1:{await server.start('127.0.0.1', 0)}"
    try:
        async with ClientSession(cookie_jar=CookieJar(unsafe=True)) as session:
            async with session.get(f"{base}/?token={server.access.token}") as page:
                assert page.status == 200
                assert str(page.url) == f"{base}{server.access.root}"
                assert "&lt;shop&gt;" in await page.text()
            yield Browser(session, server, base)
    finally:
        await server.stop()


async def pid_in(socket: ClientWebSocketResponse) -> int:
    told = (await socket.receive_bytes()).decode()
    assert told.startswith("size 91 pid ")
    return int(told.rpartition(" ")[2])


async def test_without_the_token_nothing_is_shown_and_no_answer_tells_it() -> None:
    async with served() as browser, ClientSession() as stranger:
        root = browser.server.access.root
        for path in ("/", "/?token=", "/?token=wrong", root, f"{root}ws", f"{root}static/js/textual.js", "/x"):
            async with stranger.get(browser.base + path) as answer:
                text = await answer.text()
                assert answer.status == 403, path
                assert answer.headers["Referrer-Policy"] == "no-referrer"
                assert browser.server.access.token not in text + str(answer.headers)
        async with browser.session.get(f"{browser.base}{root}static/js/textual.js") as script:
            assert script.status == 200
        async with browser.session.get(browser.base + root) as page:
            assert browser.server.access.token not in await page.text() + str(page.headers)


async def test_a_foreign_name_or_page_opens_nothing_even_with_the_cookie() -> None:
    async with served() as browser:
        access = browser.server.access
        headers = {"Host": "rebound.example:80"}
        async with browser.session.get(f"{browser.base}/?token={access.token}", headers=headers) as page:
            assert page.status == 403
        for wrong in ({"Origin": "http://127.0.0.1:1"}, {"Origin": "null"}, {"Origin": "", "Host": "rebound.example"}):
            with pytest.raises(WSServerHandshakeError) as refused:
                await browser.open(**wrong)
            assert refused.value.status == 403


async def test_connections_without_a_request_take_no_place_from_browsers() -> None:
    async with served() as browser, AsyncExitStack() as half_open:
        port = int(browser.base.rpartition(":")[2])
        readers = []
        for _ in range(2 * MOST_CALLERS):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            half_open.callback(writer.close)
            writer.write(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n")  # and no more of it
            readers.append(reader)
        async with asyncio.timeout(30):
            assert await asyncio.gather(*(reader.read() for reader in readers[:MOST_CALLERS])) == [b""] * MOST_CALLERS
        async with browser.session.get(f"{browser.base}{browser.server.access.root}") as page:
            assert page.status == 200


async def test_each_tab_is_a_process_that_ends_with_it_and_there_are_so_many() -> None:
    async with served() as browser:
        tabs = [await browser.open() for _ in range(MOST_TABS)]
        pids = [await pid_in(tab) for tab in tabs]
        assert len(set(pids)) == MOST_TABS
        one_more = await browser.open()
        assert b"consoles are open here already" in await one_more.receive_bytes()
        assert (await one_more.receive()).type.name in ("CLOSE", "CLOSED")
        await tabs[0].send_str("no json")
        await tabs[0].send_str(json.dumps(["resize", {"width": 10**9, "height": "x"}]))
        await tabs[0].send_str(json.dumps(["ping", 7]))
        assert json.loads(await tabs[0].receive_str()) == ["pong", 7]
        await tabs[0].close()
        await until(lambda: not alive(pids[0]))
        assert all(alive(pid) for pid in pids[1:])
        async with asyncio.timeout(30):  # the server learns of the end a moment later
            while b"already" in (told := await (await browser.open()).receive_bytes()):
                pass
        last = int(told.rpartition(b" ")[2])
    assert not any(alive(pid) for pid in (*pids, last)), "the end of the server is the end of all"


async def test_a_console_that_does_not_end_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("horsies_tui.serving.tab._STOP_S", 0.1)
    monkeypatch.setattr("horsies_tui.serving.tab._KILL_S", 0.1)
    async with served(NEVER_ENDS) as browser:
        tab = await browser.open()
        pid = await pid_in(tab)
        await tab.close()
        await until(lambda: not alive(pid))


async def test_a_console_that_ends_or_cannot_start_closes_its_tab() -> None:
    for then in ("", "sys.exit(3)"):
        async with served(then) as browser:
            tab = await browser.open()
            await pid_in(tab)
            assert (await tab.receive(timeout=20)).type.name in ("CLOSE", "CLOSED")


@contextmanager
def _command(environ: dict[str, str], *words: str) -> Any:
    command = ["tui", "--serve", "--serve-port", "0", *words]
    process: Command[str] = Command(command, env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("PATH", "TMPDIR", "PYTHONPYCACHEPREFIX") if name in os.environ}
    home = {name: str(tmp_path) for name in ("HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME")}
    return {**kept, **home, "TERM": "dumb"}


def address_told(process: Any) -> str:
    place = Path(process.stdout.readline().partition("the address in ")[2].strip())
    assert place.stat().st_mode & 0o077 == 0
    return place.read_text().strip()


async def test_the_real_console_is_drawn_takes_keys_and_ends_with_its_server(
    database: str, environ: dict[str, str]
) -> None:
    with _command(environ, "--database-url", database, "--read-only", "--screen", "tasks") as process:
        url = await asyncio.to_thread(address_told, process)
        base, _, token = url.partition("/?token=")
        async with ClientSession(cookie_jar=CookieJar(unsafe=True)) as session:
            async with session.get(url) as page:
                root = page.url
            tab = await session.ws_connect(f"{root}ws?width=100&height=30", headers={"Origin": base})
            drawn = await _until_drawn(tab, "READ-ONLY")
            assert "Tasks" in drawn
            await tab.send_str(json.dumps(["stdin", "1"]))
            await _until_drawn(tab, "IN/S")
            child = next(iter(psutil.Process(process.pid).children()))
            assert all(token not in " ".join(each.cmdline()) for each in (child, psutil.Process(process.pid)))
            assert "postgresql://" not in " ".join(child.cmdline())
            process.send_signal(signal.SIGTERM)
            assert await asyncio.to_thread(process.wait, 20) == 0
            assert not child.is_running()
        assert token not in process.stdout.read()


async def test_a_server_that_is_killed_leaves_no_console(database: str, environ: dict[str, str]) -> None:
    with _command(environ, "--database-url", database) as process:
        url = await asyncio.to_thread(address_told, process)
        base = url.partition("/?token=")[0]
        async with ClientSession(cookie_jar=CookieJar(unsafe=True)) as session:
            async with session.get(url) as page:
                root = page.url
            tab = await session.ws_connect(f"{root}ws", headers={"Origin": base})
            parent = psutil.Process(process.pid)
            await until(parent.children)
            child = parent.children()[0]
            process.kill()
            await until(lambda: not alive(child.pid))
            await tab.close()


async def _until_drawn(tab: ClientWebSocketResponse, word: str) -> str:
    drawn = ""
    async with asyncio.timeout(60):
        while word not in drawn:
            drawn += (await tab.receive_bytes()).decode(errors="replace")
    return drawn


def test_without_the_extra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    found = find_spec
    monkeypatch.setattr("horsies.cli.tui.find_spec", lambda name: None if name == "textual_serve" else found(name))
    told = CliRunner().invoke(app, ["tui", "--serve", "--database-url", "postgresql://ops@127.0.0.1:1/app"])
    assert told.exit_code == 1
    assert "pip install '.[serve]'" in told.output


async def test_a_public_address_is_warned_about_and_what_does_not_go_together_is_refused(
    database: str, environ: dict[str, str]
) -> None:
    with _command(environ, "--database-url", database, "--serve-host", "0.0.0.0") as process:
        told = [await asyncio.to_thread(process.stdout.readline) for _ in range(4)]
        assert any("HTTP is not encrypted" in line for line in told)
        assert any("ssh -L" in line for line in told)
        process.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(process.wait, 20) == 0
    with _command(environ, "--database-url", database, "--record", "a.rec") as process:
        assert "--record and --serve do not go together" in await asyncio.to_thread(process.stdout.read)
        assert process.wait(60) == 2
