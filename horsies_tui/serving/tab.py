"""One tab of a browser: the process of its console, and the messages between the two."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from asyncio.subprocess import PIPE, Process
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from aiohttp import WSMsgType
from textual_serve.app_service import AppService
from textual_serve.download_manager import DownloadManager

from horsies_tui.shell.environment import SERVED

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from aiohttp.web import WebSocketResponse

_TERMINAL: Final = {"TERM": "xterm-256color", "COLORTERM": "truecolor", "LC_ALL": "C.UTF-8"}
"""What the page can draw, whatever terminal this server was started in."""
_STOP_S: Final = 5.0
_KILL_S: Final = 2.0
_MOST_COLUMNS: Final = 1_000
_MOST_TYPED: Final = 1_000_000


class ConsoleTab(AppService):
    """Ends its console when the tab is closed, and closes the tab when the console ends."""

    def __init__(self, command: Sequence[str], environ: Mapping[str, str], websocket: WebSocketResponse) -> None:
        super().__init__(
            "",
            write_bytes=websocket.send_bytes,
            write_str=websocket.send_str,
            close=websocket.close,  # type: ignore[arg-type]  # it returns whether it was open
            download_manager=DownloadManager(),
        )
        self._words = command
        self._environ = environ
        self._websocket = websocket

    async def _open_app_process(self, width: int = 80, height: int = 24) -> Process:
        """Start the console without a shell; the kernel kills it if this server is killed."""
        environ = {**self._build_environment(width, height), **_TERMINAL, **self._environ, SERVED: "1"}
        parent = (sys.executable, "-m", "horsies.run.die_with_parent", str(os.getpid()))
        self._process = process = await asyncio.create_subprocess_exec(
            *parent, *self._words, stdin=PIPE, stdout=PIPE, stderr=PIPE, env=environ
        )
        self._stdin = process.stdin
        return process

    async def serve(self, width: int, height: int) -> None:
        """Serve until the tab is closed or the console has ended."""
        await self.start(*_bounded(width, height))
        try:
            async for message in self._websocket:
                if message.type == WSMsgType.TEXT:
                    await self._take(message.data)
        finally:
            await self.stop()

    async def run(self) -> None:
        """Run the console, and close the tab at its end, also if it could not start."""
        await super().run()
        await self.remote_close()

    async def stop(self) -> None:
        """Ask the console to end; one that does not is killed. Its last words are on this server's output."""
        process, running = self._process, self._task
        if process is None or running is None:
            return
        self._task = None
        with suppress(ConnectionError, RuntimeError):
            await self.send_meta({"type": "quit"})
        ended = asyncio.ensure_future(process.wait())
        for end, patience_s in ((process.terminate, _STOP_S), (process.kill, _KILL_S)):
            await asyncio.wait([ended], timeout=patience_s)
            if not ended.done():
                with suppress(ProcessLookupError):
                    end()
        await ended
        await asyncio.wait([running])

    async def _take(self, text: str) -> None:
        """Handle what the page sends; ignore anything else."""
        with suppress(ValueError, RecursionError):
            match json.loads(text):
                case ["stdin", str(typed)] if len(typed) <= _MOST_TYPED:
                    await self.send_bytes(typed.encode(errors="replace"))
                case ["resize", {"width": int(width), "height": int(height)}]:
                    await self.set_terminal_size(*_bounded(width, height))
                case ["ping", told]:
                    await self._websocket.send_json(["pong", told])
                case ["focus"]:
                    await self.focus()
                case ["blur"]:
                    await self.blur()

    async def on_meta(self, data: bytes) -> None:
        """The console sends no files and opens no addresses: only its end is passed on."""
        told: Any = json.loads(data)
        if told.get("type") == "exit":
            await self.remote_close()


def _bounded(width: int, height: int) -> tuple[int, int]:
    return min(max(width, 20), _MOST_COLUMNS), min(max(height, 5), _MOST_COLUMNS)
