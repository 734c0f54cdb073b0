"""Creates and upgrades the schema.

Where no database is configured, it says which places were searched and what to do; in a terminal it offers to make one.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from horsies.display.terminal import ask, say
from horsies.domain.errors import ConfigurationError, ErrorCode

if TYPE_CHECKING:
    from horsies.config.contexts import DatabaseChoice
    from horsies.store.embedded import EmbeddedPlace
    from horsies.store.schema import Migration


def make_if_wished(choice: DatabaseChoice) -> None:
    """Return once the embedded server of the default place exists: created earlier, or now that the caller agreed.

    Otherwise a list would create a server and answer "no task" to an operator whose URL was not set in that shell.
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
        say(*_done(applied, database.label))


def _done(applied: list[Migration], label: str) -> list[str]:
    if not applied:
        return [f"nothing to do: the schema in {label} is current"]
    steps = (f"  {migration.version:03d} {migration.name}" for migration in applied)
    return [*steps, f"the schema in {label} is ready"]
