"""The database of a command: one order of sources for all commands, and what the other sources would say."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from shlex import quote
from typing import TYPE_CHECKING, Final

from horsies.config.contexts import Context, DatabaseChoice, PassedOver, config_path, read_config_file
from horsies.config.url import DatabaseUrl
from horsies.domain.errors import ConfigurationError
from horsies.domain.masking import mask, mask_word

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from horsies.config.contexts import ConfigFile

ORDER: Final = (
    "--database-url or --context",
    "HORSIES_DATABASE_URL",
    "the application that is named",
    "DATABASE_URL",
    "default_context of the config file",
    "the embedded PostgreSQL",
)
"""DATABASE_URL comes after the application: other programs use that variable, too, for a database without our tables.

So does the default context, which a person sets for the console: a worker must not leave its producers for it.
"""
_LOCAL: Final = frozenset({"localhost", "127.0.0.1", "::1"})
_ADVICE: Final = re.compile(
    r"horsies (db|tasks|workflows|workers|queues|schedules|audit|recovery) [a-z][a-z-]*[a-z]\b"
    r"(?!.* --(?:module|context|database-url)\b)"
)


@dataclass(frozen=True, slots=True)
class NamedApplication:
    """The application of a command line, and the database of its configuration."""

    locator: str
    url: DatabaseUrl


def choose_database(
    database_url: str | None,
    context: str | None,
    environ: Mapping[str, str],
    application: NamedApplication | None = None,
    *,
    guarded: bool = True,
) -> DatabaseChoice:
    """The first source of ORDER that is set, with those behind it that mean another database.

    If the config file has a context for the same database, its colour and its guards hold, whichever source was taken.
    Where no guards hold, as for a worker on the database that it was deployed for, a config file that cannot be read
    counts as none: a mistake in the settings of a console stops no worker.
    """
    path = config_path(environ)
    try:
        file = read_config_file(path)
    except ConfigurationError:
        if guarded:
            raise
        file = read_config_file(None)
    sources = _sources(database_url, context, environ, application, file)
    chosen = next(sources)
    return replace(
        chosen,
        context=chosen.context or _guarding(chosen, file),
        passed_over=tuple(_others(chosen, _readable(sources))),
    )


def advise(text: str, options: str) -> str:
    """`text` with its commands made to work on the database that it is about.

    A URL is added to `horsies db` alone: its password is masked, so a person has to complete the line anyway.
    """

    def add(command: re.Match[str]) -> str:
        left = options.startswith("--database-url") and command[1] != "db"
        return command[0] if left else f"{command[0]} {options}"

    return _ADVICE.sub(add, text) if options else text


def _sources(
    database_url: str | None,
    context: str | None,
    environ: Mapping[str, str],
    application: NamedApplication | None,
    file: ConfigFile,
) -> Iterator[DatabaseChoice]:
    """Yield the sources that are set, in the order of ORDER."""
    if database_url is not None:
        url = _parse(database_url, "--database-url")
        yield DatabaseChoice(url, "given by --database-url", options=f"--database-url '{url}'")
    elif context is not None:
        one = file.context(context)
        reason = f"context {one.shown_name!r}, given by --context"
        yield DatabaseChoice(one.url, reason, one, options=f"--context {quote(one.shown_name)}")
    yield from _variable(environ, "HORSIES_DATABASE_URL")
    if application is not None:
        where = mask_word(application.locator)
        yield DatabaseChoice(
            application.url, f"the application {where} is configured so", options=f"--module {quote(where)}"
        )
    yield from _variable(environ, "DATABASE_URL")
    if file.default_context is not None:
        one = file.context(file.default_context)
        yield DatabaseChoice(one.url, f"default context {one.shown_name!r} of {file.path}", one)
    yield DatabaseChoice(None, "nothing else is configured: the embedded PostgreSQL, for development and demos")


def _variable(environ: Mapping[str, str], name: str) -> Iterator[DatabaseChoice]:
    if environ.get(name):
        yield DatabaseChoice(_parse(environ[name], name), f"from the environment variable {name}")


def _readable(sources: Iterator[DatabaseChoice]) -> Iterator[DatabaseChoice]:
    """Those behind the chosen one. A URL that cannot be parsed, as DATABASE_URL=sqlite:///db, ends them."""
    try:
        yield from sources
    except ConfigurationError:
        return


def _others(chosen: DatabaseChoice, sources: Iterator[DatabaseChoice]) -> Iterator[PassedOver]:
    for other in sources:
        if other.url is not None and chosen.url is not None and _identity(other.url) != _identity(chosen.url):
            yield PassedOver(other.reason, other.url, by_application=other.options.startswith("--module"))


def _guarding(chosen: DatabaseChoice, file: ConfigFile) -> Context | None:
    """The context of the same database: of several the one with the same user, then the strictest."""
    url = chosen.url
    same = [one for one in file.contexts.values() if url is not None and _identity(one.url) == _identity(url)]
    return max(
        same,
        key=lambda one: (url is not None and one.url.user == url.user, one.production, one.read_only),
        default=None,
    )


def _identity(url: DatabaseUrl) -> tuple[object, ...]:
    """Return what distinguishes two databases; the same server may have several names, which are not compared."""
    if url.embedded_directory is not None:
        return (url.embedded_directory,)
    addresses = url.addresses or (("localhost", 5432),)
    hosts = {("localhost" if host.strip("[]") in _LOCAL else host.lower(), port) for host, port in addresses}
    return frozenset(hosts), url.database or url.user


def _parse(text: str, setting: str) -> DatabaseUrl:
    try:
        return DatabaseUrl.parse(text)
    except ConfigurationError as error:
        raise error.with_note(f"it comes from {mask(setting)}") from None
