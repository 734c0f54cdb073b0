"""The user's config file: named databases, and how the console looks; and the choice of one database.

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
production = true    # looks different and asks harder
read_only = true     # nothing is ever written through it

[filters]            # offered by name on the console's filter line
mine = "queue:mail status:failed since:1h"

[filters.workflows]  # and of workers, schedules, activity
stuck = "status:running run:>1h"

[targets]            # how long a due task of a queue may wait before the console's overview tells of it
mail = "1m"

[keys]               # by the ids that `?` in the console shows
tasks.follow = "F5"
table.down = "j,down"
"""

from __future__ import annotations

import difflib
import os
import re
import tomllib
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from horsies.config.url import DatabaseUrl
from horsies.domain.errors import ConfigurationError, ErrorCode
from horsies.domain.masking import mask, mask_word

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

COLOURS = ("red", "green", "yellow", "blue", "magenta", "cyan", "white")
_TOP_LEVEL = (
    *("bell", "contexts", "default_context", "filters", "keys", "mask_arguments", "story", "targets", "theme", "title"),
)
_FILTERED = ("workflows", "workers", "schedules", "activity")
"""The screens besides that of tasks that have a filter."""
_LENGTH = re.compile(r"(\d{1,6})([smhd])")
_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
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
        """The name of a context may be a whole URL."""
        return mask_word(self.name)


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """The user's config file; empty if there is none."""

    path: Path
    contexts: Mapping[str, Context]
    default_context: str | None
    keys: Mapping[str, str] = field(default_factory=dict)
    mask_arguments: tuple[str, ...] = ()
    theme: str | None = None
    filters: Mapping[str, str] = field(default_factory=dict)
    """Of tasks, by name."""
    screen_filters: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Of the other screens."""
    targets: Mapping[str, float] = field(default_factory=dict)
    """By queue, in seconds."""
    bell: bool = False
    """Whether the console rings the terminal's bell for a new alert."""
    title: bool = True
    """Whether the terminal's title shows the database and its verdict while the console is open."""
    story: bool = True
    """Whether the console shows the story of a list's row beside it, where there is room."""

    def filters_of(self, screen: str) -> Mapping[str, str]:
        """The named filters of a screen."""
        return self.filters if screen == "tasks" else self.screen_filters.get(screen, {})

    def context(self, name: str) -> Context:
        """The context called `name`; otherwise an error that lists the others."""
        if name in self.contexts:
            return self.contexts[name]
        if not self.contexts:
            raise _config_error(
                f"there is no context {mask_word(name)!r}: {self.path} has no contexts",
                f'add one:\n[contexts.{mask_word(name)}]\nurl = "postgresql://user@host/database"',
            )
        raise _config_error(
            f"there is no context {mask_word(name)!r} in {self.path}{_did_you_mean(name, self.contexts)}",
            f"the contexts there are: {', '.join(map(mask_word, sorted(self.contexts)))}",
        )


@dataclass(frozen=True, slots=True)
class PassedOver:
    """A source that means another database than the one that was taken."""

    reason: str
    url: DatabaseUrl
    by_application: bool
    """Whether it is the configuration of the application that the command line names."""


@dataclass(frozen=True, slots=True)
class DatabaseChoice:
    """The database that a command uses, and why. No URL: the embedded server in its default place."""

    url: DatabaseUrl | None
    reason: str
    context: Context | None = None
    options: str = ""
    """The options by which another command takes the same database; none where it does so without."""
    passed_over: tuple[PassedOver, ...] = ()

    @property
    def read_only(self) -> bool:
        return self.context is not None and self.context.read_only


def config_path(environ: Mapping[str, str]) -> Path | None:
    """`~/.config/horsies/config.toml`, or below XDG_CONFIG_HOME if that is set; None for a user without a home."""
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
        raise _config_error(f"{path} is not valid TOML: {error}", "correct the file at the place named") from None
    except UnicodeDecodeError as error:
        raise _config_error(
            f"{path} is not UTF-8 text: {error.reason} at byte {error.start}", "save it as UTF-8"
        ) from None
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise _config_error(f"cannot read {path}: {reason}", "make it readable for you, or move it away") from error
    return _check(path, content)


def _check(path: Path, content: dict[str, Any]) -> ConfigFile:
    _refuse_unknown(path, "", content, _TOP_LEVEL)
    tables = content.get("contexts", {})
    if not isinstance(tables, dict):
        raise _config_error(f"{path}: contexts is not a table", "write [contexts.NAME] and url = … below it")
    contexts = {name: _context(path, name, table) for name, table in tables.items()}
    default = _word(path, content, "default_context")
    masked = content.get("mask_arguments", [])
    if not (isinstance(masked, list) and all(isinstance(name, str) and name for name in masked)):
        raise _config_error(
            f"{path}: mask_arguments is not a list of argument names", 'write mask_arguments = ["password", "card_*"]'
        )
    keys = dict(_keys(path, content.get("keys", {}), "keys"))
    filters, of_screens = _filters(path, content.get("filters", {}))
    theme = _word(path, content, "theme")
    targets = dict(_targets(path, content.get("targets", {})))
    flags = {flag: _flag(path, content, flag) for flag in ("bell", "story", "title") if flag in content}
    file = ConfigFile(path, contexts, default, keys, tuple(masked), theme, filters, of_screens, targets, **flags)
    if default is not None:
        file.context(default)
    return file


def _filters(path: Path, table: object) -> tuple[dict[str, str], dict[str, dict[str, str]]]:
    """Those of tasks, and those of the other screens."""
    tables: dict[str, Any] = table if isinstance(table, dict) else {"": None}
    of_screens = {name: texts for name, texts in tables.items() if name in _FILTERED and isinstance(texts, dict)}
    of_tasks = {name: text for name, text in tables.items() if name not in of_screens}
    if not all(isinstance(text, str) for texts in (of_tasks, *of_screens.values()) for text in texts.values()):
        raise _config_error(
            f"{path}: filters is not a table of names and texts", 'write [filters] and mine = "status:failed" below it'
        )
    return of_tasks, of_screens


def _word(path: Path, content: dict[str, Any], key: str) -> str | None:
    word = content.get(key)
    if word is not None and not isinstance(word, str):
        raise _config_error(f"{path}: {key} is not a string", f'write {key} = "NAME"')
    return word


def _flag(path: Path, table: dict[str, Any], key: str, where: str = "") -> bool:
    value = table[key]
    if not isinstance(value, bool):
        raise _config_error(f"{path}: {where}{key} is neither true nor false", f"write {key} = true, unquoted")
    return value


def _targets(path: Path, table: object) -> Iterator[tuple[str, float]]:
    found = table if isinstance(table, dict) else {"": None}
    for queue, text in found.items():
        read = _LENGTH.fullmatch(text) if isinstance(text, str) else None
        if read is None:
            raise _config_error(
                f"{path}: targets{queue and f'.{queue}'} is no length of time",
                'write [targets] and mail = "1m" below it',
            )
        yield queue, float(read[1]) * _SECONDS[read[2]]


def _keys(path: Path, table: object, where: str) -> Iterator[tuple[str, str]]:
    """Ids contain a dot, which TOML without quotes reads as tables within tables."""
    if not isinstance(table, dict):
        raise _config_error(f"{path}: {where} is not a table", 'write [keys] and tasks.follow = "f" below it')
    for name, value in table.items():
        place = f"{where}.{name}"
        if isinstance(value, dict):
            yield from _keys(path, value, place)
        elif not isinstance(value, str) or not all(key.strip() for key in value.split(",")):
            raise _config_error(
                f"{path}: {place} names no key", f'write {place.removeprefix("keys.")} = "f", or "f,ctrl+f" for two'
            )
        else:
            yield place.removeprefix("keys."), value


def _context(path: Path, name: str, table: object) -> Context:
    where = f"contexts.{name}"
    if not isinstance(table, dict):
        raise _config_error(f"{path}: {where} is not a table", f'write [{where}] and url = "postgresql://…" below it')
    _refuse_unknown(path, f"{where}.", table, [known.name for known in fields(Context) if known.name != "name"])
    if not isinstance(table.get("url"), str):
        raise _config_error(
            f"{path}: {where} has no url", f'write url = "postgresql://user@host/database" below [{where}]'
        )
    for flag in {"production", "read_only"} & table.keys():
        _flag(path, table, flag, f"{where}.")
    colour = table.get("colour")
    if colour is not None and colour not in COLOURS:
        raise _config_error(f"{path}: {where}.colour {colour!r} is not a colour", f"choose one of {', '.join(COLOURS)}")
    return Context(**{**table, "name": name, "url": _parse(table["url"], f"{where}.url in {path}")})


def _refuse_unknown(path: Path, prefix: str, table: dict[str, Any], known: list[str] | tuple[str, ...]) -> None:
    for key in table:
        if key not in known:
            raise _config_error(
                f"{path}: unknown key {prefix}{key}{_did_you_mean(key, known)}", f"known here: {', '.join(known)}"
            )


def _did_you_mean(word: str, known: Mapping[str, object] | list[str] | tuple[str, ...]) -> str:
    close = difflib.get_close_matches(word, list(known), n=1, cutoff=0.5)
    return f"; did you mean {close[0]!r}?" if close else ""


def _parse(text: str, setting: str) -> DatabaseUrl:
    try:
        return DatabaseUrl.parse(text)
    except ConfigurationError as error:
        raise error.with_note(f"it comes from {mask(setting)}") from None


def _config_error(message: str, help_text: str) -> ConfigurationError:
    """Names and keys are quoted, and a name or a misplaced key may be a whole URL: hence the masks."""
    return ConfigurationError(mask(message), code=ErrorCode.CLI_INVALID_ARGS, help_text=mask(help_text))
