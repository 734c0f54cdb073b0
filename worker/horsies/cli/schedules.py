"""`horsies schedules`: the verbs are added from their records."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from horsies.cli.reading import Session
    from horsies.config.contexts import DatabaseChoice

_COMPLETED_WITHIN_S = 2.0

app = typer.Typer(name="schedules", help="Run schedules now, pause, resume and skip them.", no_args_is_help=True)


def names_in(choice: DatabaseChoice) -> list[str]:
    """For completion: the names of schedules; none if the database does not answer at once, or does not exist."""
    from horsies.cli.reading import read
    from horsies.operations.schedules import known_names
    from horsies.store.embedded import default_place

    async def names(session: Session) -> list[str]:
        async with asyncio.timeout(_COMPLETED_WITHIN_S):
            return [name for name, is_defined in (await known_names(session.connection)).items() if is_defined]

    if choice.url is None and not os.path.isdir(default_place().data):  # noqa: PTH112 - as in make_if_wished
        return []
    with suppress(Exception):
        return read(choice, "completion", names)
    return []
