"""The user's config file, with named databases and masks; and the database that a command uses.

default_context = "staging"
theme = "horsies-light"
bell = true         # the console rings for a new alert
title = false       # the terminal keeps its own title
mask_arguments = ["password", "card_*"]  # shown as *** wherever arguments are drawn
story = false        # the console's lists alone, without the story of their row beside them

[contexts.staging]
url = "postgresql://ops@db-staging/app"
colour = "green"

[contexts.prod]
url = "postgresql://ops@db01/app"
colour = "red"
production = true    # shown differently; changes are confirmed with its name
read_only = true     # nothing is ever written through it

[filters]            # offered by name on the console's filter line
mine = "queue:mail status:failed since:1h"

[filters.workflows]  # and of workers, schedules, activity
stuck = "status:running run:>1h"

[targets]            # how long a due task of a queue may wait before the console's overview reports it
mail = "1m"

[keys]               # by the ids that `?` in the console shows
tasks.follow = "F5"
table.down = "j,down"

It is checked without pydantic, whose import takes 82 ms: a completion of `--context` reads it at each tab in 110.
"""

from __future__ import annotations

import difflib
import os
import re
import tomllib
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, Final

from horsies.config.url import DatabaseUrl
from horsies.domain.errors import ConfigurationError, ErrorCode
from horsies.domain.masking import mask, mask_word

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

COLOURS = ("red", "green", "yellow", "blue", "magenta", "cyan", "white")
_OF_CONSOLE = ("bell", "filters", "keys", "story", "targets", "theme", "title")
"""Keys that `horsies_tui/settings.py` reads and checks."""
_TOP_LEVEL = tuple(sorted(("contexts", "default_context", "mask_arguments", *_OF_CONSOLE)))
_USUAL_PATH = Path("~/.config/horsies/config.toml")


@dataclass(frozen=True, slots=True)
class Context:
    """One entry of `[contexts]`."""

    name: str
    url: DatabaseUrl
    colour: str | None = None
    production: bool = False
    read_only: bool = False

    @property
    def shown_name(self) -> str:
        """The name without a password: it may be a whole URL."""
        return mask_word(self.name)


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """The user's config file; empty if there is none."""

    path: Path
    contexts: Mapping[str, Context]
    default_context: str | None
    mask_arguments: tuple[str, ...] = ()
    of_console: Mapping[str, Any] = field(default_factory=dict)
    """The console's own keys, as they are written."""

    def context(self, name: str) -> Context:
        """Return the context called `name`, or raise an error that lists the others."""
        if name in self.contexts:
            return self.contexts[name]
        if not self.contexts:
            raise config_error(
                f"there is no context {mask_word(name)!r}: {self.path} has no contexts",
                f'add one:\n[contexts.{mask_word(name)}]\nurl = "postgresql://user@host/database"',
            )
        raise config_error(
            f"there is no context {mask_word(name)!r} in {self.path}{_did_you_mean(name, self.contexts)}",
            f"available contexts: {', '.join(map(mask_word, sorted(self.contexts)))}",
        )


@dataclass(frozen=True, slots=True)
class PassedOver:
    """A source that names another database than the chosen one."""

    reason: str
    url: DatabaseUrl
    by_application: bool
    """True if it is the configuration of the application that the command line names."""


@dataclass(frozen=True, slots=True)
class DatabaseChoice:
    """The database that a command uses, and why. No URL: the embedded server in its default place."""

    url: DatabaseUrl | None
    reason: str
    context: Context | None = None
    options: str = ""
    """The options with which another command uses the same database; empty if it needs none."""
    passed_over: tuple[PassedOver, ...] = ()

    @property
    def read_only(self) -> bool:
        return self.context is not None and self.context.read_only


def config_path(environ: Mapping[str, str]) -> Path | None:
    """Return `~/.config/horsies/config.toml`, or below XDG_CONFIG_HOME if that is set; None without a home."""
    if base := environ.get("XDG_CONFIG_HOME"):
        return Path(base) / "horsies" / "config.toml"
    try:
        return _USUAL_PATH.expanduser()
    except RuntimeError:  # no HOME, and a uid without an account, as in many containers
        return None


def read_config_file(path: Path | None) -> ConfigFile:
    """Read and check the file; every error names the file, the key and a valid value."""
    if path is None:
        return ConfigFile(_USUAL_PATH, {}, None)
    try:
        with path.open("rb") as file:
            content = tomllib.load(file)
    except (FileNotFoundError, NotADirectoryError):
        return ConfigFile(path, {}, None)
    except tomllib.TOMLDecodeError as error:
        # The line itself is not shown: it may contain a password.
        raise config_error(f"{path} is not valid TOML: {error}", "correct that line of the file") from None
    except UnicodeDecodeError as error:
        raise config_error(
            f"{path} is not UTF-8 text: {error.reason} at byte {error.start}", "save it as UTF-8"
        ) from None
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise config_error(
            f"cannot read {path}: {reason}", "give yourself read permission, or move the file away"
        ) from error
    return _check(path, content)


def _check(path: Path, content: dict[str, Any]) -> ConfigFile:
    _refuse_unknown(path, "", content, _TOP_LEVEL)
    tables = content.get("contexts", {})
    if not isinstance(tables, dict):
        raise config_error(f"{path}: contexts is not a table", "write [contexts.NAME] and url = … below it")
    contexts = {name: _context(path, name, table) for name, table in tables.items()}
    default = word_at(path, content, "default_context")
    masked = content.get("mask_arguments", [])
    if not (isinstance(masked, list) and all(isinstance(name, str) and name for name in masked)):
        raise config_error(
            f"{path}: mask_arguments is not a list of argument names", 'write mask_arguments = ["password", "card_*"]'
        )
    of_console = {key: content[key] for key in _OF_CONSOLE if key in content}
    file = ConfigFile(path, contexts, default, tuple(masked), of_console)
    if default is not None:
        file.context(default)
    return file


def word_at(path: Path, content: Mapping[str, Any], key: str) -> str | None:
    """Return the string that is stored below the key, or None if there is none."""
    word = content.get(key)
    if word is not None and not isinstance(word, str):
        raise config_error(f"{path}: {key} is not a string", f'write {key} = "NAME"')
    return word


def flag_at(path: Path, table: Mapping[str, Any], key: str, where: str = "") -> bool:
    """Return the boolean that is stored below the key."""
    value = table[key]
    if not isinstance(value, bool):
        raise config_error(f"{path}: {where}{key} is neither true nor false", f"write {key} = true, unquoted")
    return value


def _context(path: Path, name: str, table: object) -> Context:
    where = f"contexts.{name}"
    if not isinstance(table, dict):
        raise config_error(f"{path}: {where} is not a table", f'write [{where}] and url = "postgresql://…" below it')
    _refuse_unknown(path, f"{where}.", table, [known.name for known in fields(Context) if known.name != "name"])
    if not isinstance(table.get("url"), str):
        raise config_error(
            f"{path}: {where} has no url", f'write url = "postgresql://user@host/database" below [{where}]'
        )
    for flag in {"production", "read_only"} & table.keys():
        flag_at(path, table, flag, f"{where}.")
    colour = table.get("colour")
    if colour is not None and colour not in COLOURS:
        raise config_error(f"{path}: {where}.colour {colour!r} is not a colour", f"choose one of {', '.join(COLOURS)}")
    return Context(**{**table, "name": name, "url": _parse(table["url"], f"{where}.url in {path}")})


def _refuse_unknown(path: Path, prefix: str, table: dict[str, Any], known: list[str] | tuple[str, ...]) -> None:
    for key in table:
        if key not in known:
            raise config_error(
                f"{path}: unknown key {prefix}{key}{_did_you_mean(key, known)}", f"valid keys: {', '.join(known)}"
            )


def _did_you_mean(word: str, known: Mapping[str, object] | list[str] | tuple[str, ...]) -> str:
    close = difflib.get_close_matches(word, list(known), n=1, cutoff=0.5)
    return f"; did you mean {close[0]!r}?" if close else ""


def _parse(text: str, setting: str) -> DatabaseUrl:
    try:
        return DatabaseUrl.parse(text)
    except ConfigurationError as error:
        raise error.with_note(f"it comes from {mask(setting)}") from None


def config_error(message: str, help_text: str) -> ConfigurationError:
    """Return an error with its passwords masked: a name or a misplaced key that it quotes may be a whole URL."""
    return ConfigurationError(mask(message), code=ErrorCode.CLI_INVALID_ARGS, help_text=mask(help_text))


ORDER: Final = (
    "--database-url or --context",
    "HORSIES_DATABASE_URL",
    "the application that is named",
    "DATABASE_URL",
    "default_context of the config file",
    "the embedded PostgreSQL",
)
"""The sources of a command's database, in order.

DATABASE_URL comes after the application because other programs use that variable, too, for databases without our
tables. So does the default context, because a person sets it for the console: a worker must use the database of its
producers.
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
    """Return the first source of ORDER that is set, and the later ones that name another database.

    If the config file has a context for the same database, its colour and its guards hold, whichever source was taken.
    Unless `guarded`, as for a worker on the database that it was deployed for, a config file that cannot be read is
    ignored: a mistake in the settings of a console stops no worker.
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
    passed_over: list[PassedOver] = []
    with suppress(ConfigurationError):  # a URL that cannot be parsed, as DATABASE_URL=sqlite:///db, ends them
        for other in sources:
            if other.url is not None and chosen.url is not None and _identity(other.url) != _identity(chosen.url):
                by_application = other.options.startswith("--module")
                passed_over.append(PassedOver(other.reason, other.url, by_application=by_application))
    return replace(chosen, context=chosen.context or _guarding(chosen, file), passed_over=tuple(passed_over))


def advise(text: str, options: str) -> str:
    """Return the text with the options added to its commands, so that they use the same database.

    A URL is added to `horsies db` only: its password is masked, so a person has to complete the line anyway.
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
            application.url, f"configured in the application {where}", options=f"--module {quote(where)}"
        )
    yield from _variable(environ, "DATABASE_URL")
    if file.default_context is not None:
        one = file.context(file.default_context)
        yield DatabaseChoice(one.url, f"default context {one.shown_name!r} of {file.path}", one)
    yield DatabaseChoice(None, "nothing else is configured: the embedded PostgreSQL, for development and demos")


def _variable(environ: Mapping[str, str], name: str) -> Iterator[DatabaseChoice]:
    if environ.get(name):
        yield DatabaseChoice(_parse(environ[name], name), f"from the environment variable {name}")


def _guarding(chosen: DatabaseChoice, file: ConfigFile) -> Context | None:
    """Return the context of the same database: of several the one with the same user, then the strictest."""
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
