"""Database URLs: the accepted forms, parsed, and shown without their password."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from platformdirs import user_data_path

from horsies.domain.errors import ConfigurationError, ErrorCode
from horsies.domain.masking import is_secret, mask_whole

EMBEDDED_SCHEME = "embedded"
_DRIVERS = re.compile(r"postgres(?:ql)?(?:\+\w+)?")
_ROOT_HOME = Path("/var/lib/horsies")
_EMBEDDED_NAME = re.compile(r"[A-Za-z0-9][\w.-]*", re.ASCII)
_SCHEME = re.compile(r"[A-Za-z][\w+.-]*")
SESSION_ATTRS = ("any", "read-write", "read-only", "primary", "standby", "prefer-standby")
_FORMS = (
    "write postgresql://user:password@host:5432/database\n"
    "percent-encode / # ? % and spaces in the password (for example # as %23)"
)

# libpq knows these and asyncpg does not: it would send them to the server as settings, which rejects them.
_LIBPQ_ONLY = frozenset(
    {
        *("channel_binding", "client_encoding", "connect_timeout", "fallback_application_name", "gssencmode"),
        *("hostaddr", "keepalives", "keepalives_count", "keepalives_idle", "keepalives_interval"),
        *("load_balance_hosts", "requirepeer", "sslcompression", "tcp_user_timeout"),
    }
)


@dataclass(frozen=True, slots=True)
class DatabaseUrl:
    """One database, or the directory of an embedded one. Its text forms never show a password."""

    secret_text: str = field(repr=False)
    masked: str
    hosts: tuple[str, ...]
    user: str | None
    database: str | None
    connect_timeout_s: float | None
    embedded_directory: Path | None
    addresses: tuple[tuple[str, int], ...] = ()
    """Host, or directory of a socket, and port, for each of `hosts`."""
    session_attrs: str | None = None
    """`target_session_attrs`: what the server must be to be chosen."""

    @property
    def where(self) -> str:
        """`host:port`, several joined by commas, or a socket's directory."""
        return ", ".join(self.hosts) or "the default socket"

    @property
    def label(self) -> str:
        """Short enough for a header: `db01/app`."""
        if self.embedded_directory is not None:
            return f"embedded {self.embedded_directory}"
        host = self.hosts[0].removesuffix(":5432") if self.hosts else "local"
        more = f" +{len(self.hosts) - 1}" if len(self.hosts) > 1 else ""
        return f"{host}{more}/{self.database or self.user or ''}"

    def __str__(self) -> str:
        return self.masked

    @classmethod
    def parse(cls, text: str) -> DatabaseUrl:
        """Parse a URL; ConfigurationError HRS-203 if it is invalid."""
        text = text.strip()
        scheme, found, rest = text.partition("://")
        if text.partition(":")[0].casefold() == EMBEDDED_SCHEME:
            return _embedded(text)
        if not found or not _DRIVERS.fullmatch(scheme):
            # Text before a later :// may contain a password, so it is quoted only if it can be a scheme.
            kind = f"{scheme}:// is not PostgreSQL" if found and _SCHEME.fullmatch(scheme) else "it has no scheme"
            raise _refused(text, kind)
        if "#" in rest:
            raise _refused(text, "it contains a '#', which ends a URL")
        try:
            parts = urlsplit(f"postgresql://{rest}")
        except ValueError:  # its message quotes the whole login, password included
            reason = "a bracket of an IPv6 address is not closed, or a character looks like one of / ? # @ :"
            raise _refused(text, reason) from None
        if not all("=" in parameter for parameter in parts.query.split("&") if parameter):
            raise _refused(text, "a parameter after the '?' has no '='")
        if "@" in parts.path or "@" in parts.query:
            raise _refused(text, "an '@' follows a '/' or '?'; in a password write them as %40, %2F and %3F")
        return _take_apart(text, parts.netloc, unquote(parts.path.lstrip("/")), parts.query)


def _take_apart(text: str, netloc: str, path: str, query: str) -> DatabaseUrl:
    parameters = _parameters(query)
    login, _, address = netloc.rpartition("@")
    user, _, password = login.partition(":")
    addresses = _addresses(text, address or parameters.get("host", ""), parameters.get("port", ""))
    session_attrs = parameters.get("target_session_attrs")
    if session_attrs is not None and session_attrs not in SESSION_ATTRS:
        raise _refused(text, f"target_session_attrs is none of {', '.join(SESSION_ATTRS)}")
    kept = {name: value for name, value in parameters.items() if name not in _LIBPQ_ONLY}
    # asyncpg reads an empty password as the password; with none it looks into PGPASSWORD and ~/.pgpass
    credentials = _encode(user) + (f":{_encode(password)}" if password else "")
    credentials = credentials and f"{credentials}@"
    tail = f"/{quote(path, safe='', errors='surrogateescape')}" + (f"?{_encode_all(kept)}" if kept else "")
    shown = {name: "***" if is_secret(name, value) else value for name, value in parameters.items()}
    shown_login = user + (":***" if password else "")
    return DatabaseUrl(
        secret_text=f"postgresql://{credentials}{address}{tail}",
        masked=f"postgresql://{shown_login and shown_login + '@'}{address}/{path}"
        + (f"?{_encode_all(shown)}" if shown else ""),
        hosts=tuple(host if host.startswith("/") else f"{host}:{port}" for host, port in addresses),
        user=unquote(user) or parameters.get("user") or None,
        database=path or parameters.get("dbname") or None,
        connect_timeout_s=_seconds(text, parameters.get("connect_timeout")),
        embedded_directory=None,
        addresses=addresses,
        session_attrs=session_attrs,
    )


def _parameters(query: str) -> dict[str, str]:
    """SQLAlchemy writes several hosts as ?host=a:1&host=b:2; for any other repeated name the last one counts."""
    parameters: dict[str, str] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        several = name in ("host", "port") and name in parameters
        parameters[name] = f"{parameters[name]},{value}" if several else value
    return parameters


def _encode(text: str) -> str:
    # A raw '@' in a password is accepted here but not by asyncpg, which takes the first one for its end.
    return quote(unquote(text), safe="", errors="surrogateescape")


def _encode_all(parameters: dict[str, str]) -> str:
    return urlencode(parameters, safe="/,:*", errors="surrogateescape")


def _addresses(text: str, address: str, ports: str) -> tuple[tuple[str, int], ...]:
    """Parse `h1:1,h2` and `?host=h1,h2&port=1,2`, both as (('h1', 1), ('h2', 5432))."""
    given = [port.strip() for port in ports.split(",")] if ports else ["5432"]
    parts = unquote(address).split(",") if address else []
    if len(parts) > 1 and not all(parts):
        raise _refused(text, "a comma between hosts has no host beside it")
    found: list[tuple[str, int]] = []
    for index, part in enumerate(parts):
        if part.startswith("/"):
            port = given[min(index, len(given) - 1)]
            found.append((part, int(port) if port.isdecimal() else 5432))
            continue
        host, _, port = part.rpartition(":") if re.search(r":\d*$|:[^\]:]*$", part) else (part, "", "")
        if ":" in host and not host.startswith("["):
            raise _refused(text, "a host contains a ':'; an IPv6 address is written in brackets, as in [::1]:5432")
        port = port or given[min(index, len(given) - 1)]
        if not port.isdecimal():  # not quoted: without an '@' the password is here
            raise _refused(text, "its port is not a number; if that was the password, add @host after it")
        if not 0 < int(port) < 65536:
            raise _refused(text, "its port is not a number from 1 to 65535")
        found.append((host or "localhost", int(port)))
    return tuple(found)


def _seconds(text: str, value: str | None) -> float | None:
    if value is None or value == "0":  # libpq: 0 waits for ever
        return None
    if not value.isdecimal():
        raise _refused(text, f"connect_timeout={value!r} is not a number of seconds")
    return float(value)


def embedded_home() -> Path:
    """HORSIES_HOME, or the user's data directory. Root's server runs as another user, so not below root's home."""
    if home := os.environ.get("HORSIES_HOME"):
        return Path(home).expanduser().absolute()
    return _ROOT_HOME if os.geteuid() == 0 else user_data_path("horsies")


def _embedded(text: str) -> DatabaseUrl:
    path = unquote(text.removeprefix(f"{EMBEDDED_SCHEME}://"))
    if "?" in text or "#" in text:
        reason = "contains a '?' or '#', but an embedded server takes no settings"
    elif text.startswith(f"{EMBEDDED_SCHEME}://") and _EMBEDDED_NAME.fullmatch(path):
        directory = embedded_home() / path
        named = f"{EMBEDDED_SCHEME}://{quote(str(directory))}"
        return DatabaseUrl(named, named, (), None, None, None, directory)
    elif not text.startswith(f"{EMBEDDED_SCHEME}://") or not path.startswith("/"):
        reason = "names no absolute directory"
    else:
        return DatabaseUrl(text, text, (), None, None, None, Path(path))
    raise ConfigurationError(
        f"{mask_whole(text)!r} {reason}",
        code=ErrorCode.BROKER_INVALID_URL,
        help_text="write embedded:///absolute/path, or embedded://name for a directory of that name in HORSIES_HOME,\n"
        "or leave the URL out for the default directory",
    )


def _refused(text: str, reason: str) -> ConfigurationError:
    return ConfigurationError(
        f"{mask_whole(text)!r} is not a PostgreSQL URL: {reason}", code=ErrorCode.BROKER_INVALID_URL, help_text=_FORMS
    )
