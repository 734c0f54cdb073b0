"""The console's keys of the user's config file, and the options of one run of the console."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from horsies.config.contexts import config_error, flag_at, word_at

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from horsies.config.contexts import ConfigFile, DatabaseChoice
    from horsies.operations.edited import TypedValues


_FILTERED: Final = ("workflows", "workers", "schedules", "activity")
"""The screens besides that of tasks that have a filter."""
_LENGTH: Final = re.compile(r"(\d{1,6})([smhd])")
_SECONDS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}


@dataclass(frozen=True, slots=True)
class ConsoleSettings:
    """The settings of the console; the defaults if the config file has none."""

    keys: Mapping[str, str] = field(default_factory=dict)
    theme: str | None = None
    filters: Mapping[str, str] = field(default_factory=dict)
    """The saved filters of tasks, by name."""
    screen_filters: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """The saved filters of the other screens."""
    targets: Mapping[str, float] = field(default_factory=dict)
    """How long a due task may wait, by queue, in seconds."""
    bell: bool = False
    """Whether the console rings the terminal's bell for a new alert."""
    title: bool = True
    """Whether the terminal's title shows the database and its verdict while the console is open."""
    story: bool = True
    """Whether the console shows the story of a list's row beside it, where there is room."""

    @classmethod
    def of(cls, file: ConfigFile) -> ConsoleSettings:
        """Check the console's keys of the config file; every error names the file, the key and a valid value."""
        path, content = file.path, file.of_console
        filters, screen_filters = _filters(path, content.get("filters", {}))
        return cls(
            keys=dict(_keys(path, content.get("keys", {}), "keys")),
            theme=word_at(path, content, "theme"),
            filters=filters,
            screen_filters=screen_filters,
            targets=dict(_targets(path, content.get("targets", {}))),
            **{flag: flag_at(path, content, flag) for flag in ("bell", "story", "title") if flag in content},
        )

    def filters_of(self, screen: str) -> Mapping[str, str]:
        """The named filters of a screen."""
        return self.filters if screen == "tasks" else self.screen_filters.get(screen, {})


def _filters(path: Path, table: object) -> tuple[dict[str, str], dict[str, dict[str, str]]]:
    """Those of tasks, and those of the other screens."""
    tables: dict[str, Any] = table if isinstance(table, dict) else {"": None}
    of_screens = {name: texts for name, texts in tables.items() if name in _FILTERED and isinstance(texts, dict)}
    of_tasks = {name: text for name, text in tables.items() if name not in of_screens}
    if not all(isinstance(text, str) for texts in (of_tasks, *of_screens.values()) for text in texts.values()):
        raise config_error(
            f"{path}: filters is not a table of names and texts", 'write [filters] and mine = "status:failed" below it'
        )
    return of_tasks, of_screens


def _targets(path: Path, table: object) -> Iterator[tuple[str, float]]:
    found = table if isinstance(table, dict) else {"": None}
    for queue, text in found.items():
        read = _LENGTH.fullmatch(text) if isinstance(text, str) else None
        if read is None:
            raise config_error(
                f"{path}: targets{queue and f'.{queue}'} is not a length of time",
                'write [targets] and mail = "1m" below it',
            )
        yield queue, float(read[1]) * _SECONDS[read[2]]


def _keys(path: Path, table: object, where: str) -> Iterator[tuple[str, str]]:
    """Ids contain a dot, which TOML without quotes reads as tables within tables."""
    if not isinstance(table, dict):
        raise config_error(f"{path}: {where} is not a table", 'write [keys] and tasks.follow = "f" below it')
    for name, value in table.items():
        place = f"{where}.{name}"
        if isinstance(value, dict):
            yield from _keys(path, value, place)
        elif not isinstance(value, str) or not all(key.strip() for key in value.split(",")):
            raise config_error(
                f"{path}: {place} names no key", f'write {place.removeprefix("keys.")} = "f", or "f,ctrl+f" for two'
            )
        else:
            yield place.removeprefix("keys."), value


USUAL_FPS: Final = 60
"""Data arrive four times a second; the rate matters for keys. At 20, the second of two quick keys waited 50 ms."""
USUAL_REFRESH_S: Final = 2.0


@dataclass(frozen=True, slots=True)
class ConsoleOptions:
    """`task_id` (a prefix is enough) opens that task first; `theme` None: the config file's, else a fitting one."""

    choice: DatabaseChoice
    config: ConfigFile
    settings: ConsoleSettings = field(default_factory=ConsoleSettings)
    read_only: bool = False
    screen: str = "overview"
    filter: str = ""
    task_id: str | None = None
    clusters: tuple[str, ...] = ()
    """The contexts of `--context a,b`: the first page lists them, and no database is open until one is chosen."""
    ascii: bool = False
    mouse: bool = True
    theme: str | None = None
    refresh_s: float = USUAL_REFRESH_S
    fps: int = USUAL_FPS
    debug: bool = False
    record: Path | None = None
    """The new file in which what the feeds read is recorded."""
    replay: Path | None = None
    """The recording that is shown in place of a database."""
    speed: float = 1.0
    types: Callable[[], TypedValues] | None = None
    """Imports the application that the command line names, for the values that operators write."""
