"""Access to the served console: for a browser with the token that addresses a name of this server."""

from __future__ import annotations

import hmac
import ipaddress
import re
import secrets
import socket
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Mapping

_BYTES: Final = 32
COOKIE: Final = "horsies_console"
_AUTHORITY: Final = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9._-]+)(:[0-9]{1,5})?", re.IGNORECASE | re.ASCII)


class Access:
    """The secrets of one start. The token is in the address that is printed; a browser gets a cookie for it once.

    The cookie is another secret, so that the address in a history opens nothing that a stolen cookie would, and it is
    sent only to paths below `root`: cookies do not know ports, and other servers of this machine must not get it.
    """

    def __init__(self, host: str, names: frozenset[str] = frozenset()) -> None:
        self.token = secrets.token_urlsafe(_BYTES)
        self.root = f"/console-{secrets.token_hex(4)}/"
        self._cookie = secrets.token_urlsafe(_BYTES)
        self._host = host
        self._names = frozenset(name.lower() for name in names)

    def knows(self, token: str) -> bool:
        return hmac.compare_digest(token.encode(), self.token.encode())

    @property
    def set_cookie(self) -> str:
        """The header: no script reads it, and no other site's page makes the browser send it."""
        return f"{COOKIE}={self._cookie}; Path={self.root}; HttpOnly; SameSite=Lax"

    def may_enter(self, cookies: Mapping[str, str]) -> bool:
        return hmac.compare_digest(cookies.get(COOKIE, "").encode(), self._cookie.encode())

    def is_ours(self, host: str | None) -> bool:
        """Return whether a `Host` header names this server: one that resolves to it is an attack (DNS rebinding).

        It is written into the page and its policy, so only a name and a port are accepted: `x">@localhost` is not.
        """
        if host is None or _AUTHORITY.fullmatch(host) is None:
            return False
        name = urlsplit(f"//{host}").hostname or ""
        if name in self._names or name == "localhost":
            return True
        address = address_of(name)
        if address is not None:
            # An address cannot be rebound. On a loopback socket no other one arrives.
            return address.is_loopback or not is_loopback(self._host)
        return not is_loopback(self._host) and name in {socket.gethostname().lower(), socket.getfqdn().lower()}

    def is_same_origin(self, origin: str | None, host: str | None) -> bool:
        """Browsers send `Origin` with each websocket: only our own page may open one. It may have come over TLS."""
        if origin is None or host is None:
            return False
        parts = urlsplit(origin)
        return parts.scheme in ("http", "https") and parts.netloc.lower() == host.lower() and self.is_ours(host)


def is_loopback(host: str) -> bool:
    address = address_of(host)
    return host == "localhost" if address is None else address.is_loopback


def address_of(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(name)
    except ValueError:
        return None
