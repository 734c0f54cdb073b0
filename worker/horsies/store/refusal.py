"""Refused connections: do they mean that the server on this machine does not run, so that no sweep can run either?"""

from __future__ import annotations

import errno
import re
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlsplit

import asyncpg

from horsies.store.connect import DatabaseUnavailable
from horsies.store.statements import statement

if TYPE_CHECKING:
    from horsies.config.url import DatabaseUrl

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
    """Return whether no server answered, or one that is starting or stopping: it has run no statement since."""
    cause = error.__cause__ if isinstance(error, DatabaseUnavailable) else error
    if isinstance(cause, OSError):
        # localhost has two addresses: if both refuse, the errno values are only in the text.
        numbers = {cause.errno} if cause.errno else set(map(int, re.findall(r"\[Errno (\d+)\]", str(cause))))
        return bool(numbers) and numbers <= _NO_SERVER
    return isinstance(cause, asyncpg.CannotConnectNowError)
