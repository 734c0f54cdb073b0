"""Options that several commands share, spelled and explained once."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from horsies.config.contexts import DatabaseChoice


@dataclass(slots=True)
class Debugging:
    """Whether a failure shows its traceback; set while options are read."""

    on: bool = False


debugging = Debugging()


def _set_debugging(value: bool) -> bool:
    debugging.on = debugging.on or value
    return value


def _complete_context(incomplete: str) -> list[str]:
    from horsies.config.contexts import config_path, read_config_file

    return [name for name in read_config_file(config_path(os.environ)).contexts if name.startswith(incomplete)]


DatabaseUrlOption = Annotated[
    str | None,
    typer.Option(
        "--database-url",
        metavar="URL",
        help="The database to work on: `postgresql://user@host/database`, or "
        "`embedded:///directory` for a server of its own in that directory.",
        show_default=False,
        rich_help_panel="Which database",
    ),
]
ContextOption = Annotated[
    str | None,
    typer.Option(
        "--context",
        metavar="NAME",
        help="A database named in `~/.config/horsies/config.toml`.",
        show_default=False,
        autocompletion=_complete_context,
        rich_help_panel="Which database",
    ),
]
DebugOption = Annotated[
    bool, typer.Option("--debug", help="Show the traceback of a failure.", callback=_set_debugging, show_default=False)
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for machines.", show_default=False)]


def choose(database_url: str | None, context: str | None) -> DatabaseChoice:
    """The database that these options and the environment name."""
    from horsies.config.contexts import choose_database

    if database_url is not None and context is not None:
        raise typer.BadParameter("--database-url and --context name two databases; give one of them")
    return choose_database(database_url, context, os.environ)
