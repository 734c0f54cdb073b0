"""The options of one run of the console, from the command line and the config file."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from horsies_tui.settings import ConsoleSettings

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from horsies.config.contexts import ConfigFile, DatabaseChoice
    from horsies.operations.edited import TypedValues

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
