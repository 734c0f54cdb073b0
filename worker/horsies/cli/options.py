"""Options that several commands share, with the same spelling and help."""

from __future__ import annotations

import os
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from horsies.domain.errors import ConfigurationError, ErrorCode

if TYPE_CHECKING:
    from horsies.config.contexts import DatabaseChoice


class LogLevel(StrEnum):
    DEBUG = "DEBUG"
    INFO = "INFO"
    WARNING = "WARNING"
    ERROR = "ERROR"
    CRITICAL = "CRITICAL"


@dataclass(slots=True)
class Debugging:
    """Whether a failure shows its traceback; set while options are parsed."""

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
        help="The database to use: `postgresql://user@host/database`, or "
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
        help="A database named in `~/.config/horsies/config.toml` (below `XDG_CONFIG_HOME` where that is set).",
        show_default=False,
        autocompletion=_complete_context,
        rich_help_panel="Which database",
    ),
]
DebugOption = Annotated[
    bool, typer.Option("--debug", help="Show the traceback of a failure.", callback=_set_debugging, show_default=False)
]
ModuleArgument = Annotated[
    str | None, typer.Argument(metavar="MODULE", help="The application: `shop.tasks:app`, or `shop/tasks.py`.")
]
ModuleOption = Annotated[
    str | None, typer.Option("--module", "-m", help="The application, in place of the argument.", show_default=False)
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.", show_default=False)]


def choose(database_url: str | None, context: str | None) -> DatabaseChoice:
    """The database that these options and the environment select."""
    from horsies.config.contexts import choose_database

    if database_url is not None and context is not None:
        raise typer.BadParameter("--database-url and --context name two databases; give one of them")
    return choose_database(database_url, context, os.environ)


def choose_existing(database_url: str | None, context: str | None) -> DatabaseChoice:
    """`choose`, for a command that needs an existing database: none is created without a question."""
    return existing(choose(database_url, context))


def existing(choice: DatabaseChoice) -> DatabaseChoice:
    """Returns once the chosen database exists."""
    from horsies.cli.schema import make_if_wished

    if choice.url is None:
        make_if_wished(choice)
    return choice


def only_module(argument: str | None, option: str | None) -> str:
    """The one module that was given, as an argument or as an option."""
    named = {name for name in (argument, option) if name is not None}
    if len(named) == 1:
        return named.pop()
    raise ConfigurationError(
        f"two modules are named: {argument} and {option}" if named else "no module is named",
        code=ErrorCode.CLI_INVALID_ARGS,
        help_text="name the application, for example shop.tasks:app",
    )
