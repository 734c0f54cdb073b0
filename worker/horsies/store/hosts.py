"""One server among the hosts of a URL: each has its own time limit, so that one that hangs delays no other."""

from __future__ import annotations

import asyncio
import os
import socket
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias
from weakref import WeakSet

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    import asyncpg

    from horsies.config.url import DatabaseUrl

_CONNECT_TIMEOUT_S = 10.0
"""Seconds for a single host if the URL has no connect_timeout."""
_HOST_TIMEOUT_S = 3.0
"""Seconds for each of several hosts if the URL has no connect_timeout."""
_NEXT_HOST_S = 0.5
"""Seconds without an answer after which the next host is asked in parallel."""
_ANY, _PREFER_STANDBY = "any", "prefer-standby"
_UNFIT = {
    "read-write": "it is a standby, or refuses writes",
    "primary": "it is a standby",
    "read-only": "it accepts writes",
}
_ONLY_ONE_FITS = frozenset({"read-write", "primary"})

# Both sides notice within 25 s, not in two hours, that the other's machine is lost: a session keeps its locks that
# long.
_KEEPALIVE_IDLE_S, _KEEPALIVE_INTERVAL_S, _KEEPALIVE_COUNT = 10, 5, 3
_USER_TIMEOUT_MS = 20_000
SERVER_KEEPALIVES = (
    ("tcp_keepalives_idle", str(_KEEPALIVE_IDLE_S)),
    ("tcp_keepalives_interval", str(_KEEPALIVE_INTERVAL_S)),
    ("tcp_keepalives_count", str(_KEEPALIVE_COUNT)),
    ("tcp_user_timeout", str(_USER_TIMEOUT_MS)),
)

Address: TypeAlias = tuple[str, int]


class UnfitHostError(Exception):
    """A server answered, but does not fit target_session_attrs."""

    def __init__(self, wanted: str) -> None:
        super().__init__(_UNFIT.get(wanted, "it is a primary"))
        self.wanted = wanted


class NoHostError(Exception):
    """The error when none of several hosts accepts a connection; `answers` has the answer of each."""

    def __init__(self, answers: list[tuple[str, Exception]]) -> None:
        super().__init__("no host gives a connection")
        self.answers = answers

    @property
    def worst(self) -> Exception:
        """The most useful error: the refusal of a running server, then no answer, then a server of the other kind."""
        errors = [error for _, error in self.answers]
        refused = [error for error in errors if not isinstance(error, OSError | UnfitHostError)]
        unfit = [error for error in errors if isinstance(error, UnfitHostError)]
        return (refused or unfit or errors)[0]


@dataclass(slots=True)
class Reached:
    """This process's knowledge of the hosts of a URL: where it found the server, and its connections to each."""

    host: int = 0
    refuses_settings: bool = False
    """A pooler, which accepts no settings at the start of a connection."""
    _connections: dict[int, WeakSet[asyncpg.Connection]] = field(default_factory=lambda: defaultdict(WeakSet))

    def found(self, connection: asyncpg.Connection, host: int, *, only_one_fits: bool) -> None:
        """Close connections to a server that was replaced: their callers would otherwise wait for ever.

        A primary that hangs sends nothing, and its kernel still acknowledges all packets, so no keepalive helps.
        """
        self.host = host
        self._connections[host].add(connection)
        if only_one_fits:
            for other in self._connections.keys() - {host}:
                for abandoned in list(self._connections.pop(other)):
                    abandoned.terminate()


def timeout_of(url: DatabaseUrl) -> float:
    """Return the time limit for one host; connect_timeout in the URL is for each, as with libpq."""
    return url.connect_timeout_s or (_HOST_TIMEOUT_S if len(url.addresses) > 1 else _CONNECT_TIMEOUT_S)


async def connect_to_host(
    url: DatabaseUrl,
    reached: Reached,
    open_host: Callable[[Address | None], Awaitable[asyncpg.Connection]],
    *,
    reads_only: bool,
) -> asyncpg.Connection:
    """Connect to the first host that answers and fits target_session_attrs.

    The error of a single host is raised unchanged; NoHostError for several. `reads_only`: the session itself is opened
    with default_transaction_read_only, which does not depend on the server.
    """
    wanted = url.session_attrs or os.environ.get("PGTARGETSESSIONATTRS") or _ANY
    limit_s = timeout_of(url)

    async def ask(address: Address | None) -> tuple[asyncpg.Connection, bool]:
        async with asyncio.timeout(limit_s):
            connection = await open_host(address)
            try:
                fits = await _fits(connection, wanted, reads_only=reads_only)
            except BaseException:
                connection.terminate()
                raise
        return connection, fits

    if len(url.addresses) < 2:
        connection, fits = await ask(None)
        if not fits and wanted != _PREFER_STANDBY:
            connection.terminate()
            raise UnfitHostError(wanted)
    else:
        # In the order of the URL, but first the host where the server was found last.
        order = sorted(range(len(url.addresses)), key=lambda host: (host != reached.host, host))
        connection, host = await _first_that_fits(url, order, ask, wanted)
        reached.found(connection, host, only_one_fits=wanted in _ONLY_ONE_FITS)
    _keep_alive(connection)
    return connection


async def _first_that_fits(
    url: DatabaseUrl,
    order: list[int],
    ask: Callable[[Address], Awaitable[tuple[asyncpg.Connection, bool]]],
    wanted: str,
) -> tuple[asyncpg.Connection, int]:
    """Ask the hosts in order, each in parallel to those that have not answered yet; the first fitting answer counts."""
    asked: dict[asyncio.Future[tuple[asyncpg.Connection, bool]], int] = {}
    waiting = list(order)
    answers: dict[int, Exception] = {}
    second_best: tuple[asyncpg.Connection, int] | None = None
    try:
        while waiting or asked:
            if waiting:
                host = waiting.pop(0)
                asked[asyncio.ensure_future(ask(url.addresses[host]))] = host
            done, _ = await asyncio.wait(
                asked, timeout=_NEXT_HOST_S if waiting else None, return_when=asyncio.FIRST_COMPLETED
            )
            for task in sorted(done, key=lambda task: order.index(asked[task])):
                host = asked[task]
                if (error := task.exception()) is not None:
                    del asked[task]
                    if not isinstance(error, Exception):
                        raise error
                    answers[host] = error
                    continue
                connection, fits = task.result()
                del asked[task]
                if fits:
                    return connection, host
                if wanted == _PREFER_STANDBY and second_best is None:
                    second_best = connection, host
                else:
                    connection.terminate()
                answers[host] = UnfitHostError(wanted)
        if second_best is not None:
            chosen, second_best = second_best, None
            return chosen
    finally:
        await _give_up(list(asked))
        if second_best is not None:
            second_best[0].terminate()
    raise NoHostError([(url.hosts[host], answers[host]) for host in sorted(answers)])


async def _give_up(asked: list[asyncio.Future[tuple[asyncpg.Connection, bool]]]) -> None:
    for task in asked:
        task.cancel()
    for answer in await asyncio.gather(*asked, return_exceptions=True):
        if isinstance(answer, tuple):
            answer[0].terminate()


async def _fits(connection: asyncpg.Connection, wanted: str, *, reads_only: bool) -> bool:
    if wanted == _ANY:
        return True
    settings = connection.get_settings()
    reported = getattr(settings, "in_hot_standby", None)  # sent by PostgreSQL 14 and newer; not by every pooler
    is_standby = reported == "on" if reported else bool(await connection.fetchval("SELECT pg_is_in_recovery()"))
    if wanted in ("standby", _PREFER_STANDBY):
        return is_standby
    if wanted == "primary":
        return not is_standby
    refuses_writes = not reads_only and getattr(settings, "default_transaction_read_only", "off") == "on"
    return (is_standby or refuses_writes) is (wanted == "read-only")


def _keep_alive(connection: asyncpg.Connection) -> None:
    """Set the client's keepalives, the counterpart of SERVER_KEEPALIVES; asyncpg has no option for them."""
    transport = connection._transport  # noqa: SLF001 - no public way to the socket
    own = transport.get_extra_info("socket")
    if own is None or own.family not in (socket.AF_INET, socket.AF_INET6):
        return
    own.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    options = {
        "TCP_KEEPIDLE": _KEEPALIVE_IDLE_S,
        "TCP_KEEPINTVL": _KEEPALIVE_INTERVAL_S,
        "TCP_KEEPCNT": _KEEPALIVE_COUNT,
        "TCP_USER_TIMEOUT": _USER_TIMEOUT_MS,
    }
    for name, value in options.items():
        if hasattr(socket, name):  # macOS has no TCP_USER_TIMEOUT, and another name for the first one
            own.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
