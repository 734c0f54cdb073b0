"""Database URLs: the forms that we accept, taken apart, and shown without their password."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from horsies.domain.errors import ConfigurationError, ErrorCode

EMBEDDED_SCHEME = "embedded"
_DRIVERS = re.compile(r"postgres(?:ql)?(?:\+\w+)?")
_SECRET_PARAMETERS = ("password", "sslpassword")
_PASSWORD_BEFORE_HOST = re.compile(r"(//[^:/?#@]*):.*@", re.DOTALL)
_PASSWORD_PARAMETER = re.compile(r"((?:ssl)?password=)[^&\s]*", re.IGNORECASE)
_FORMS = (
    "write postgresql://user:password@host:5432/database\n"
    "percent-encode / # ? % and spaces in the password (for example # as %23)"
)

# libpq knows these and asyncpg does not: it would send them to the server as settings, which refuses them.
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

    @property
    def where(self) -> str:
        """`host:port` as a person would say it, several joined by commas, or a socket's directory."""
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
        """Take a URL apart; ConfigurationError HRS-203 where it is none of ours."""
        text = text.strip()
        scheme, found, _ = text.partition("://")
        if found and scheme == EMBEDDED_SCHEME:
            return _embedded(text)
        if not found or not _DRIVERS.fullmatch(scheme):
            kind = f"{scheme}:// is not PostgreSQL" if found else "it has no scheme"
            raise _refused(text, kind)
        try:
            parts = urlsplit("postgresql://" + text.partition("://")[2])
        except ValueError as error:
            raise _refused(text, str(error)) from None
        if parts.fragment:
            raise _refused(text, "it holds a '#', which ends a URL")
        return _take_apart(text, parts.netloc, unquote(parts.path.lstrip("/")), parts.query)


def mask(text: str) -> str:
    """`text` with every password that looks like part of a URL or a connection string replaced by ***."""
    return _PASSWORD_PARAMETER.sub(r"\1***", _PASSWORD_BEFORE_HOST.sub(r"\1:***@", text))


def _take_apart(text: str, netloc: str, path: str, query: str) -> DatabaseUrl:
    parameters = dict(parse_qsl(query, keep_blank_values=True))
    login, _, address = netloc.rpartition("@")
    user, has_password, password = login.partition(":")
    hosts = _hosts(text, address or parameters.get("host", ""), parameters.get("port", ""))
    kept = {name: value for name, value in parameters.items() if name not in _LIBPQ_ONLY}
    # asyncpg reads an empty password as the password; with none it looks into PGPASSWORD and ~/.pgpass
    credentials = user + (f":{password}" if has_password and password else "")
    credentials = credentials and f"{credentials}@"
    tail = f"/{quote(path, safe='')}" + (f"?{urlencode(kept, safe='/,')}" if kept else "")
    shown = {name: "***" if name in _SECRET_PARAMETERS else value for name, value in parameters.items()}
    shown_login = user + (":***" if password else "")
    return DatabaseUrl(
        secret_text=f"postgresql://{credentials}{address}{tail}",
        masked=f"postgresql://{shown_login and shown_login + '@'}{address}/{path}"
        + (f"?{urlencode(shown, safe='/,*')}" if shown else ""),
        hosts=hosts,
        user=unquote(user) or parameters.get("user") or None,
        database=path or parameters.get("dbname") or None,
        connect_timeout_s=_seconds(text, parameters.get("connect_timeout")),
        embedded_directory=None,
    )


def _hosts(text: str, address: str, ports: str) -> tuple[str, ...]:
    """`h1:1,h2` and `?host=h1,h2&port=1,2` alike -> ('h1:1', 'h2:5432'); a socket's directory stays as it is."""
    given = [port.strip() for port in ports.split(",")]
    found = []
    for index, part in enumerate(filter(None, unquote(address).split(","))):
        if part.startswith("/"):
            found.append(part)
            continue
        host, _, port = part.rpartition(":") if re.search(r":\d*$|:[^\]:]*$", part) else (part, "", "")
        port = port or given[min(index, len(given) - 1)] or "5432"
        if not port.isdecimal() or not 0 < int(port) < 65536:
            raise _refused(text, f"port {mask(port)!r} is not a number from 1 to 65535")
        found.append(f"{host or 'localhost'}:{port}")
    return tuple(found)


def _seconds(text: str, value: str | None) -> float | None:
    if value is None or value == "0":  # libpq: 0 waits for ever
        return None
    if not value.isdecimal():
        raise _refused(text, f"connect_timeout={value!r} is not a number of seconds")
    return float(value)


def _embedded(text: str) -> DatabaseUrl:
    path = unquote(text.partition("://")[2])
    if not path.startswith("/"):
        raise ConfigurationError(
            f"{text!r} names no absolute directory",
            code=ErrorCode.BROKER_INVALID_URL,
            help_text="write embedded:///absolute/path, or leave the URL out for the default directory",
        )
    directory = Path(path)
    return DatabaseUrl(text, text, (), None, None, None, directory)


def _refused(text: str, reason: str) -> ConfigurationError:
    shown = mask(text) if "//" in text else mask(f"//{text}")[2:]
    return ConfigurationError(
        f"{shown!r} is not a PostgreSQL URL: {reason}", code=ErrorCode.BROKER_INVALID_URL, help_text=_FORMS
    )
