"""Finds an operation by its id or the end of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from uuid import UUID

from horsies.cli.formatting import unshortened
from horsies.operations.target import OperationError
from horsies.query import ActivityFilter
from horsies.views import operation_page

if TYPE_CHECKING:
    from horsies.cli.reading import Connection

_WHOLE: Final = 36
_SEARCHED: Final = 1_000


async def operation_of(connection: Connection, text: str) -> UUID:
    """Find an operation by its whole id, or by the end of one among the newest operations."""
    wanted = unshortened(text).lower()
    if len(wanted) == _WHOLE:
        try:
            return UUID(wanted)
        except ValueError as error:
            raise _unknown(text) from error
    page = await operation_page(connection, ActivityFilter(), limit=_SEARCHED, count_up_to=1)
    fitting = {row.operation_id for row in page.rows if wanted and str(row.operation_id).endswith(wanted)}
    if len(fitting) != 1:
        raise _unknown(text)
    return fitting.pop()


def _unknown(text: str) -> OperationError:
    return OperationError(
        f"{text!r} is no operation, and not the end of one of the newest",
        help_text="`horsies audit ls` lists the actions of operators, with --json by whole ids",
    )
