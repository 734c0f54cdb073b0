"""The web server: a page, its files, and a websocket for each tab."""

from __future__ import annotations

import asyncio
import html
import signal
import sys
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Final

import textual_serve
from aiohttp import web
from platformdirs import user_state_path

from horsies.display.terminal import say
from horsies.domain.errors import ConfigurationError, ErrorCode
from horsies_tui.serving.access import Access, is_loopback
from horsies_tui.serving.tab import ConsoleTab

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from aiohttp.web_protocol import RequestHandler

MOST_TABS: Final = 8
"""Each is a process of 100 MB with up to three connections to the database."""
MOST_CALLERS: Final = 32
"""Connections whose request has not come yet. For a newer one the oldest is closed."""
_CALL_S: Final = 10.0
_CLOSE_AFTER_S: Final = 0.1
"""A connection may be so new that it has no transport to close yet."""
_LONGEST_MESSAGE: Final = 4_000_000
_HEADERS: Final = {
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; font-src 'self';"
        " img-src 'self' data:; connect-src 'self' {websocket}; base-uri 'none'; form-action 'none';"
        " frame-ancestors 'none'"
    ),
}
_ENTER: Final = "Open the address that `horsies tui --serve` printed when it started: it has the token.\n"


class Callers:
    """The connections that have not sent a request: without a limit they take all file descriptors of this process."""

    def __init__(self, connect: Callable[[], RequestHandler]) -> None:
        self._connect = connect
        self._waiting: dict[RequestHandler, asyncio.TimerHandle] = {}

    def __call__(self) -> RequestHandler:
        """Make the protocol of a new connection, as the factory of `create_server`."""
        while len(self._waiting) >= MOST_CALLERS:
            self._hang_up(next(iter(self._waiting)))
        caller = self._connect()
        self._waiting[caller] = asyncio.get_running_loop().call_later(_CALL_S, self._hang_up, caller)
        return caller

    def has_asked(self, caller: RequestHandler) -> None:
        if (timer := self._waiting.pop(caller, None)) is not None:
            timer.cancel()

    def _hang_up(self, caller: RequestHandler) -> None:
        self.has_asked(caller)
        asyncio.get_running_loop().call_later(_CLOSE_AFTER_S, caller.force_close)


class ConsoleServer:
    """Serves the console that `command` starts, to each browser that gives the token."""

    def __init__(self, command: Sequence[str], environ: Mapping[str, str], access: Access, title: str) -> None:
        self.access = access
        self._command, self._environ = command, environ
        self._tabs: set[web.WebSocketResponse] = set()
        self._runner: web.AppRunner | None = None
        self._callers: Callers | None = None
        self._listening: asyncio.Server | None = None
        page, self._script = (
            files("horsies_tui.serving").joinpath(name).read_text("utf-8") for name in ("page.html", "focus.js")
        )
        self._page = page.replace("{{ title }}", html.escape(title))

    async def start(self, host: str, port: int) -> int:
        """Listen, and return the port. OSError if that is not possible."""
        # No access log: it would have the token in it.
        runner = web.AppRunner(self._application(), access_log=None, handle_signals=False, shutdown_timeout=10.0)
        await runner.setup()
        assert runner.server is not None
        self._runner, self._callers = runner, Callers(runner.server)
        self._listening = await asyncio.get_running_loop().create_server(self._callers, host, port, backlog=128)
        return int(self._listening.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        """Close all connections, and end all consoles."""
        if self._listening is not None:
            self._listening.close()
        if self._runner is not None:
            await self._runner.cleanup()

    def _application(self) -> web.Application:
        app = web.Application(middlewares=[self._guard])
        root = self.access.root
        app.router.add_get("/", self._enter)
        app.router.add_get(root, self._show_page)
        app.router.add_get(f"{root}focus.js", self._show_script)
        app.router.add_get(f"{root}ws", self._open_tab)
        app.router.add_static(f"{root}static", Path(textual_serve.__file__).parent / "static")
        app.on_shutdown.append(self._close_tabs)
        return app

    @web.middleware
    async def _guard(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        """No request gets further without the right `Host`, and none but the first without the cookie."""
        if self._callers is not None:
            self._callers.has_asked(request.protocol)
        if not self.access.is_ours(request.headers.get("Host")):
            return self._dressed(request, web.Response(status=403, text="This server is not known by that name.\n"))
        if request.path != "/" and not self.access.may_enter(request.cookies):
            return self._dressed(request, web.Response(status=403, text=_ENTER))
        try:
            return self._dressed(request, await handler(request))
        except web.HTTPException as error:
            return self._dressed(request, error)

    def _dressed(self, request: web.Request, response: web.StreamResponse) -> web.StreamResponse:
        if not response.prepared:
            if response.status == web.HTTPForbidden.status_code:
                response.force_close()  # a stranger's connection is not kept for more requests
            websocket = f"ws://{request.host} wss://{request.host}" if self.access.is_ours(request.host) else ""
            response.headers.update({name: text.replace("{websocket}", websocket) for name, text in _HEADERS.items()})
        return response

    async def _enter(self, request: web.Request) -> web.Response:
        """The token is exchanged for a cookie, and leaves the address: no history, screenshot or referrer shows it."""
        if not self.access.knows(request.query.get("token", "")):
            return web.Response(status=403, text=_ENTER)
        return web.Response(status=303, headers={"Location": self.access.root, "Set-Cookie": self.access.set_cookie})

    async def _show_page(self, request: web.Request) -> web.Response:
        # The page's own scheme: behind a TLS proxy it is wss, which only the browser knows.
        scheme = "wss" if request.headers.get("X-Forwarded-Proto") == "https" else "ws"
        page = self._page.replace("{{ websocket }}", html.escape(f"{scheme}://{request.host}{self.access.root}ws"))
        return web.Response(text=page, content_type="text/html")

    async def _show_script(self, _request: web.Request) -> web.Response:
        return web.Response(text=self._script, content_type="text/javascript")

    async def _open_tab(self, request: web.Request) -> web.StreamResponse:
        if not self.access.is_same_origin(request.headers.get("Origin"), request.headers.get("Host")):
            return web.Response(status=403, text="Only the page of this server may open its console.\n")
        websocket = web.WebSocketResponse(heartbeat=15, max_msg_size=_LONGEST_MESSAGE)
        await websocket.prepare(request)
        if len(self._tabs) >= MOST_TABS:
            text = f"{MOST_TABS} consoles are open here already; close one of their tabs, then load this page again."
            await websocket.send_bytes(text.encode())
            await websocket.close()
            return websocket
        self._tabs.add(websocket)
        try:
            width, height = (_number(request.query.get(name, "")) for name in ("width", "height"))
            await ConsoleTab(self._command, self._environ, websocket).serve(width or 80, height or 24)
        finally:
            self._tabs.discard(websocket)
            await websocket.close()
        return websocket

    async def _close_tabs(self, _app: web.Application) -> None:
        await asyncio.gather(*(tab.close(code=1001) for tab in tuple(self._tabs)), return_exceptions=True)


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 6 else 0


def run(
    command: Sequence[str], environ: Mapping[str, str], *, host: str, port: int, names: frozenset[str], title: str
) -> int:
    """Serve until SIGINT or SIGTERM; all consoles have ended then."""
    return asyncio.run(_serve(ConsoleServer(command, environ, Access(host, names), title), host, port))


async def _serve(server: ConsoleServer, host: str, port: int) -> int:
    over, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, over.set)
    try:
        try:
            port = await server.start(host, port)
        except OSError as error:
            raise ConfigurationError(
                f"cannot serve on {host}:{port}: {error.strerror or error}",
                code=ErrorCode.CLI_INVALID_ARGS,
                help_text="--serve-port chooses another port, 0 any free one",
            ) from error
        _tell(server.access, host, port)
        await over.wait()
    finally:
        await server.stop()
    return 0


def _kept(where: str, port: int) -> Path:
    """The file with the address, which its owner alone can read. The next start on this port replaces it."""
    path = user_state_path("horsies") / f"serve-{port}.url"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    path.touch(mode=0o600)
    path.write_text(f"{where}\n", "utf-8")
    return path


def _tell(access: Access, host: str, port: int) -> None:
    shown = "127.0.0.1" if host in ("0.0.0.0", "::") else f"[{host}]" if ":" in host else host  # noqa: S104 - compared
    where = f"http://{shown}:{port}/?token={access.token}"
    if not sys.stdout.isatty():
        where = f"the address in {_kept(where, port)}"  # the output may be a log, which others read
    say(
        f"the console is served at {where}",
        "a browser that opens this address can do what this console can; ctrl+c ends it and all its tabs",
    )
    if not is_loopback(host):
        what = f"{host} is not this machine alone, and HTTP is not encrypted"
        way = "serve on 127.0.0.1 and forward it (ssh -L 8765:127.0.0.1:8765 HOST), or put a proxy with TLS before it"
        say(
            f"warning: {what}: others on the network can read the token and all that is shown",
            f" = help: {way}",
            stream=sys.stderr,
        )
