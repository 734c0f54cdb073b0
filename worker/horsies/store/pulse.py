"""The times in which this database could take heartbeats: a dead worker differs from one that could not beat.

The module also tells whether a refused connection means that the server on this machine is down, so that no sweep runs.
"""

from __future__ import annotations

import errno
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlsplit

import asyncpg

from horsies.store.connect import DatabaseUnavailable
from horsies.store.statements import statement

if TYPE_CHECKING:
    from datetime import datetime

    from horsies.config.recovery import RecoveryConfig
    from horsies.config.url import DatabaseUrl


@dataclass(frozen=True, slots=True)
class Pulse:
    """The pulse by the database's clock, in column order. Its gap is the last one that made live workers look dead.

    It began before all records, and `gap_began` is None, if it is the time before the first worker.
    """

    now: datetime
    beaten_at: datetime
    gap_began: datetime | None
    gap_ended: datetime | None
    spared_until: datetime | None

    @property
    def is_silent(self) -> bool:
        """True if no worker pulses now: then it is unknown whether the database was writable since `beaten_at`."""
        return self.gap_ended == self.now

    @property
    def is_first(self) -> bool:
        """True if the gap is the time before the first worker of this database: then nothing has failed."""
        return self.gap_began is None


def pulse_every_s(config: RecoveryConfig) -> float:
    """Return the longest interval between pulse attempts of a worker; a sweep after an outage uses the same value."""
    return min(config.runner_heartbeat_interval_ms, config.claimer_heartbeat_interval_ms) / 4_000


async def write_pulse(
    connection: asyncpg.Connection, config: RecoveryConfig, every_s: float, *, lives: bool = True
) -> bool:
    """Record that heartbeats can be stored now; mostly a read, as one write in `every_s` is enough for all workers.

    To be called after a worker has stored its beats, so that the pulse stops with them. `lives=False` is for a command
    that sweeps once: it cannot keep pulsing, so it only records when it asked; see `pulse` of the schema.
    """
    return bool(
        await connection.fetchval(
            statement(__name__, "pulse"),
            every_s * 1000,
            config.running_stale_threshold_ms,
            config.runner_heartbeat_interval_ms,
            config.claimed_stale_threshold_ms,
            config.claimer_heartbeat_interval_ms,
            lives,
        )
    )


async def read_pulse(connection: asyncpg.Connection, threshold_ms: int, beat_ms: int) -> Pulse | None:
    """Return the pulse; None if no worker of this release has pulsed yet: then silence alone counts."""
    row = await connection.fetchrow(statement(__name__, "pulse_state"), threshold_ms, beat_ms)
    return None if row is None else Pulse(*row)


_NO_SERVER = frozenset({errno.ECONNREFUSED, errno.ENOENT})


async def is_on_this_machine(connection: asyncpg.Connection, url: DatabaseUrl) -> bool:
    """Return whether the URL names the server on this machine. A proxy or other host may refuse us and serve others.

    False for several hosts, or if the server's port is not that of the URL.
    """
    by_socket, by_loopback, port = await connection.fetchrow(statement(__name__, "server_address"))
    if len(url.hosts) != 1:
        return False
    (host,) = url.hosts
    if by_socket:  # a pooler may have its socket in the same directory
        asked = dict(parse_qsl(urlsplit(url.secret_text).query)).get("port", "5432")
        return host.startswith("/") and asked == str(port)
    return bool(by_loopback) and host.rpartition(":")[2] == str(port)


def is_refusal(error: BaseException) -> bool:
    """Return whether the error means that the server is down, starting or stopping, and so runs no statements."""
    cause = error.__cause__ if isinstance(error, DatabaseUnavailable) else error
    if isinstance(cause, OSError):
        # localhost has two addresses: if both refuse, the errno values are only in the text.
        numbers = {cause.errno} if cause.errno else set(map(int, re.findall(r"\[Errno (\d+)\]", str(cause))))
        return bool(numbers) and numbers <= _NO_SERVER
    return isinstance(cause, asyncpg.CannotConnectNowError)
