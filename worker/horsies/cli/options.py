"""Options that several commands share, with the same spelling and help."""

from __future__ import annotations

import os
import sys
from contextlib import redirect_stdout
from dataclasses import dataclass
from enum import StrEnum
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import TYPE_CHECKING, Annotated, Any

import typer

from horsies.display.terminal import ask, say
from horsies.domain.errors import ConfigurationError, ErrorCode
from horsies.domain.plain_text import clean

if TYPE_CHECKING:
    from collections.abc import Callable

    from horsies.app import Horsies
    from horsies.config.contexts import Context, DatabaseChoice


class LogLevel(StrEnum):
    DEBUG = "DEBUG"
    INFO = "INFO"
    WARNING = "WARNING"
    ERROR = "ERROR"
    CRITICAL = "CRITICAL"


LOGLEVEL_HELP = "The lowest level of log lines that are shown; the errors that end the command are always shown."
LogLevelOption = Annotated[LogLevel, typer.Option(envvar="HORSIES_LOGLEVEL", case_sensitive=False, help=LOGLEVEL_HELP)]


@dataclass(slots=True)
class Debugging:
    """The switch for tracebacks of failures; set while options are parsed."""

    on: bool = False


debugging = Debugging()


@dataclass(slots=True)
class Advice:
    """The options by which a command that is advised works on the database of this one."""

    options: str = ""


advice = Advice()


def advised(text: str) -> str:
    """`text` with its commands made to work on the database of this one."""
    from horsies.config.contexts import advise

    return advise(text, advice.options)


def _set_debugging(value: bool) -> bool:
    debugging.on = debugging.on or value
    return value


def _complete_context(incomplete: str) -> list[str]:
    from horsies.config.contexts import config_path, read_config_file

    names = read_config_file(config_path(os.environ)).contexts
    return [name for name in names if name.startswith(incomplete) and name == clean(name)]


DatabaseUrlOption = Annotated[
    str | None,
    typer.Option(
        "--database-url",
        metavar="URL",
        help="The database to use, before all other sources: `postgresql://user@host/database`, or "
        "`embedded:///directory` for a separate server in that directory.",
        rich_help_panel="Which database",
    ),
]
ContextOption = Annotated[
    str | None,
    typer.Option(
        "--context",
        metavar="NAME",
        help="A database named in `~/.config/horsies/config.toml` (below `XDG_CONFIG_HOME` where that is set).",
        autocompletion=_complete_context,
        rich_help_panel="Which database",
    ),
]
DebugOption = Annotated[bool, typer.Option("--debug", help="Show the traceback of a failure.", callback=_set_debugging)]
ApplicationOption = Annotated[
    str | None,
    typer.Option(
        "--module",
        "-m",
        metavar="MODULE",
        envvar="HORSIES_MODULE",
        help="The database of this application: `shop.tasks:app`, or `shop/tasks.py`.",
        rich_help_panel="Which database",
    ),
]
ModuleArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="MODULE", envvar="HORSIES_MODULE", help="The application: `shop.tasks:app`, or `shop/tasks.py`."
    ),
]
ModuleOption = Annotated[str | None, typer.Option("--module", "-m", help="The application, in place of the argument.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@dataclass(frozen=True, slots=True)
class DatabaseOptions:
    """The options by which a command finds its database; the `database` of a command that `on_database` completes."""

    url: str | None
    context: str | None
    module: str | None

    def choose(self) -> DatabaseChoice:
        """Return the database that these options and the environment select; see horsies.config.contexts.

        Prints a note if an application was named whose database is another one.
        """
        from horsies.config.contexts import NamedApplication, choose_database

        module = self.module
        application = None if module is None else NamedApplication(module, _imported(module).config.broker.url)
        choice = choose_database(self.url, _one(self.url, self.context), os.environ, application)
        advice.options = choice.options
        for other in choice.passed_over:
            if other.by_application:
                about = f"note: this is about {choice.url}, {choice.reason};"
                say(about, f"      not about {other.url}: {other.reason}", stream=sys.stderr)
        return choice

    def choose_existing(self) -> DatabaseChoice:
        """Choose for a command that needs an existing database: none is created without a question."""
        choice = self.choose()
        if choice.url is None:
            from horsies.cli.schema import make_if_wished

            make_if_wished(choice)
        return choice


def database_parameters() -> list[Parameter]:
    """Return the parameters that become DatabaseOptions."""
    kinds = {"database_url": DatabaseUrlOption, "context": ContextOption, "module": ApplicationOption}
    return [option_parameter(name, kind, None) for name, kind in kinds.items()]


def option_parameter(name: str, kind: Any, default: Any) -> Parameter:
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=kind)


def on_database(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of a database, in the place of its parameter `database`, and `--debug`."""

    @wraps(command)
    def complete(*, database_url: str | None, context: str | None, module: str | None, debug: bool, **own: Any) -> None:
        command(database=DatabaseOptions(database_url, context, module), **own)

    parameters = []
    for own in signature(command, eval_str=True).parameters.values():
        parameters += database_parameters() if own.name == "database" else [own.replace(kind=Parameter.KEYWORD_ONLY)]
    parameters.append(option_parameter("debug", DebugOption, False))
    complete.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    vars(complete)["__signature__"] = Signature(parameters)
    return complete


def choose_for(app: Horsies, locator: str, database_url: str | None, context: str | None) -> DatabaseChoice:
    """Have an application use the database that the options and the environment select."""
    from horsies.config.contexts import NamedApplication, choose_database

    application = NamedApplication(locator, app.config.broker.url)
    is_named = database_url is not None or context is not None
    choice = choose_database(database_url, _one(database_url, context), os.environ, application, guarded=is_named)
    advice.options = choice.options
    app.use_database(choice)
    return choice


def app_at_work(locator: str, database_url: str | None, context: str | None) -> Horsies:
    """The application of a worker or a scheduler, checked, on the database that was chosen for it.

    Guards of contexts hold for a database that the command line names; its own is what it was deployed for.
    """
    from horsies.cli.options import confirm_service
    from horsies.locate import checked_app

    def located(app: Horsies) -> None:
        choice = choose_for(app, locator, database_url, context)
        if database_url is not None or context is not None:
            confirm_service(choice)

    return checked_app(locator, located=located)[0]


def _one(database_url: str | None, context: str | None) -> str | None:
    if database_url is not None and context is not None:
        raise typer.BadParameter("--database-url and --context name two databases; give one of them")
    return context


def _imported(module: str) -> Horsies:
    from horsies.domain.masking import mask_word
    from horsies.locate import locate_app

    if "://" in module:
        raise typer.BadParameter(f"{mask_word(module)} is no application; write --database-url before it")
    with redirect_stdout(sys.stderr):  # what it prints when it is imported is no part of --json
        return locate_app(module)


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


YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask, not even in a production context.")]


def confirm_write(choice: DatabaseChoice, command: str, *, yes: bool) -> None:
    """A read-only context is never written; a production one only after its name was typed."""
    context = choice.context
    if context is None:
        return
    if context.read_only:
        raise ConfigurationError(
            f"context {context.shown_name!r} is read-only, so `horsies db {command}` will not change it",
            code=ErrorCode.CLI_INVALID_ARGS,
            help_text="use --dry-run to see what it would do, or another context that may write",
        )
    if context.production and not yes:
        _ask_for_the_name(context, f"type {context.shown_name} when asked, or add --yes where there is no terminal")


def confirm_service(choice: DatabaseChoice) -> None:
    """A worker or a scheduler on a database that a person named: never on a read-only context.

    On a production one after its name was typed; a service manager, which has no terminal to type in, is not asked.
    """
    context = choice.context
    if context is None:
        return
    if context.read_only:
        raise ConfigurationError(
            f"context {context.shown_name!r} is read-only, and a worker or a scheduler writes",
            code=ErrorCode.CLI_INVALID_ARGS,
            help_text="name another context, or the database that the application is configured for by naming none",
        )
    if context.production and sys.stdin.isatty():
        _ask_for_the_name(context, f"type {context.shown_name} when asked")


def _ask_for_the_name(context: Context, help_text: str) -> None:
    name, label = context.shown_name, context.url.label
    typed = ask(f"{name} is a production database ({label}). Type its name to continue:")
    if typed.strip() != context.name:
        why = "that is not the name" if typed else "there is no terminal to type the name in"
        raise ConfigurationError(f"nothing was changed: {why}", code=ErrorCode.CLI_INVALID_ARGS, help_text=help_text)
