"""The database that a command uses, and the questions before it writes there."""

from __future__ import annotations

import os
import sys
from contextlib import redirect_stdout
from dataclasses import dataclass
from functools import wraps
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from horsies.cli.options import (
    ApplicationOption,
    ContextOption,
    DatabaseUrlOption,
    DebugOption,
    declare,
    invalid,
    option_parameter,
    text_argument,
)
from horsies.display.terminal import ask, say
from horsies.domain.errors import ConfigurationError, ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable

    from horsies.app import Horsies
    from horsies.config.contexts import Context, DatabaseChoice
    from horsies.store.embedded import EmbeddedPlace

_TWO_NAMED: Final = "--database-url and --context both name a database; give one of them"


@dataclass(slots=True)
class Advice:
    """The options by which a command that is advised works on the database of this one."""

    options: str = ""


advice = Advice()


def advised(text: str) -> str:
    """Return `text` with its commands made to work on the database of this one."""
    from horsies.config.contexts import advise

    return advise(text, advice.options)


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

        if self.url is not None and self.context is not None:
            raise typer.BadParameter(_TWO_NAMED)
        module = self.module
        application = None if module is None else NamedApplication(module, _imported(module).config.broker.url)
        choice = choose_database(self.url, self.context, os.environ, application)
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
            require_embedded(choice)
        return choice


def database_parameters() -> list[Parameter]:
    """Return the parameters that become DatabaseOptions."""
    kinds = {"database_url": DatabaseUrlOption, "context": ContextOption, "module": ApplicationOption}
    return [option_parameter(name, kind, None) for name, kind in kinds.items()]


def on_database(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of a database, in place of its parameter `database`, and `--debug`, after its own."""

    @wraps(command)
    def complete(*, database_url: str | None, context: str | None, module: str | None, debug: bool, **own: Any) -> None:
        command(database=DatabaseOptions(database_url, context, module), **own)

    own_parameters = dict(signature(command, eval_str=True).parameters)
    del own_parameters["database"]
    parameters = [parameter.replace(kind=Parameter.KEYWORD_ONLY) for parameter in own_parameters.values()]
    parameters += [*database_parameters(), option_parameter("debug", DebugOption, False)]
    declare(complete, parameters)
    return complete


def choose_for(app: Horsies, locator: str, database_url: str | None, context: str | None) -> DatabaseChoice:
    """Have an application use the database that the options and the environment select."""
    from horsies.config.contexts import NamedApplication, choose_database

    if database_url is not None and context is not None:
        raise typer.BadParameter(_TWO_NAMED)
    application = NamedApplication(locator, app.config.broker.url)
    is_named = database_url is not None or context is not None
    choice = choose_database(database_url, context, os.environ, application, guarded=is_named)
    advice.options = choice.options
    app.use_database(choice)
    return choice


def app_at_work(locator: str, database_url: str | None, context: str | None) -> Horsies:
    """Return the checked application of a worker or a scheduler, on the database that was chosen for it.

    Guards of contexts hold for a database that the command line names; its own is what it was deployed for.
    """
    from horsies.locate import checked_app

    def located(app: Horsies) -> None:
        choice = choose_for(app, locator, database_url, context)
        if database_url is not None or context is not None:
            _confirm_service(choice)

    return checked_app(locator, located=located)[0]


def only_module(argument: str | None, option: str | None) -> str:
    """Return the one module that was given, as an argument or as an option."""
    named = {name for name in (argument, option) if name is not None}
    if len(named) == 1:
        return named.pop()
    raise invalid(
        f"two modules are named: {argument} and {option}" if named else "no module is named",
        "name the application, for example shop.tasks:app",
    )


def _imported(module: str) -> Horsies:
    from horsies.domain.masking import mask_word
    from horsies.locate import locate_app

    if "://" in module:
        raise typer.BadParameter(
            f"{mask_word(module)} is not an application; to name a database, write --database-url before it"
        )
    with redirect_stdout(sys.stderr):  # what it prints when it is imported is no part of --json
        return locate_app(module)


def require_embedded(choice: DatabaseChoice) -> None:
    """Return once the embedded server of the default place exists: made earlier, or now that the user agreed.

    Otherwise a list would create it, and answer "no task" to an operator whose URL was not set in that shell.
    """
    import asyncio

    from horsies.store.embedded import default_place

    place = default_place()
    if os.path.isdir(place.data):  # noqa: PTH112 - Path.is_dir raises where a directory above may not be entered
        return
    error = _nothing_configured(place)
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise error
    say(error.message, error.notes[0], stream=sys.stderr)
    typed = ask(f"Make an embedded PostgreSQL in {place.root}, for development? [y/N]:")
    if typed.strip().lower() not in ("y", "yes"):
        raise error
    asyncio.run(migrate(choice, "init", dry_run=False))


async def migrate(choice: DatabaseChoice, command: str, *, dry_run: bool) -> None:
    from horsies.store.connect import open_database
    from horsies.store.schema import creatable, create, script, upgradable, upgrade

    if choice.url is None:
        application = "      --module shop.tasks:app is the database of an application"
        say(f"note: {choice.reason};", application, stream=sys.stderr)
    async with open_database(choice) as database:
        async with database.connected(f"db {command}") as connection:
            if dry_run:
                state = await (creatable if command == "init" else upgradable)(connection)
                statements = script(state.pending, state.schema) or "-- nothing to do: the schema is current"
                say(*statements.split("\n"))
                return
            applied = await (create if command == "init" else upgrade)(connection)
        for migration in applied:
            say(f"  {migration.version:03d} {migration.name}")
        ready = f"the schema in {database.label} is ready"
        say(ready if applied else f"nothing to do: the schema in {database.label} is current")


def _nothing_configured(place: EmbeddedPlace) -> ConfigurationError:
    from horsies.config.contexts import config_path

    file = config_path(os.environ)
    looked_at = [
        "--database-url",
        "--context",
        "HORSIES_DATABASE_URL",
        "--module",
        "DATABASE_URL",
        *([f"default_context in {file}"] if file is not None else []),
        f"an embedded PostgreSQL in {place.root}",
    ]
    return ConfigurationError(
        "no database is configured",
        code=ErrorCode.CLI_INVALID_ARGS,
        notes=(f"looked for: {', '.join(looked_at)}",),
        help_text="name the application, whose database it then is: --module shop.tasks:app;\n"
        "or the database: --database-url postgresql://user@host/database, or HORSIES_DATABASE_URL.\n"
        "Where there is neither yet, `horsies db init` makes the embedded one, and `horsies demo` one to look at",
    )


def confirm_write(choice: DatabaseChoice, command: str, *, yes: bool) -> None:
    """Refuse to write in a read-only context, and ask for the name of a production one."""
    context = _writable(
        choice,
        f"so `horsies db {command}` will not change it",
        "use --dry-run to see what it would do, or another context that may write",
    )
    if context is not None and context.production and not yes:
        _ask_for_the_name(context, f"type {context.shown_name} when asked, or add --yes where there is no terminal")


def _confirm_service(choice: DatabaseChoice) -> None:
    """Refuse a read-only context to a worker or a scheduler, and ask for the name of a production one.

    A service manager, which has no terminal to type in, is not asked.
    """
    context = _writable(
        choice,
        "and a worker or a scheduler writes",
        "name another context, or the database that the application is configured for by naming none",
    )
    if context is not None and context.production and sys.stdin.isatty():
        _ask_for_the_name(context, f"type {context.shown_name} when asked")


def _writable(choice: DatabaseChoice, consequence: str, help_text: str) -> Context | None:
    if choice.read_only and choice.context is not None:
        raise invalid(f"context {choice.context.shown_name!r} is read-only, {consequence}", help_text)
    return choice.context


def _ask_for_the_name(context: Context, help_text: str) -> None:
    name, label = context.shown_name, context.url.label
    typed = ask(f"{name} is a production database ({label}). Type its name to continue:")
    if typed.strip() != context.name:
        why = "that is not the name" if typed else "there is no terminal to type the name in"
        raise invalid(f"nothing was changed: {why}", help_text)


def _complete_schedule(context: typer.Context, incomplete: str) -> list[str]:
    from horsies.cli.cluster.schedule_lists import names_of_schedules

    named = DatabaseOptions(*(context.params.get(name) for name in ("database_url", "context", "module")))
    return [name for name in names_of_schedules(named.choose()) if name.startswith(incomplete)]


ScheduleArgument = Annotated[
    str, text_argument("SCHEDULE", "The name of the schedule.", autocompletion=_complete_schedule)
]
SchedulesArgument = Annotated[
    list[str], text_argument("NAME", "Names of schedules.", autocompletion=_complete_schedule)
]
