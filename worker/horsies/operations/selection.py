"""The targets of an operation: given ids, or all that match a filter at the moment of the preview."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from horsies.operations.target import OperationError
from horsies.query import parse, task_conditions
from horsies.store.statements import statement
from horsies.views import matching
from horsies.views.tasks import ExpectedState

if TYPE_CHECKING:
    from collections.abc import Iterable

    import asyncpg

MOST_ROWS: Final = 100_000


@dataclass(frozen=True, slots=True)
class Selection:
    """Whole ids in the order given, or the text of a filter. The id of a node is `<workflow id>:<index>`."""

    ids: tuple[str, ...] = ()
    filter: str | None = None

    @classmethod
    def of_ids(cls, ids: Iterable[str]) -> Selection:
        return cls(ids=tuple(dict.fromkeys(ids)))

    @classmethod
    def of_node(cls, workflow_id: str, index: int) -> Selection:
        return cls(ids=(f"{workflow_id}:{index}",))

    @classmethod
    def of_filter(cls, text: str) -> Selection:
        return cls(filter=text)


@dataclass(frozen=True, slots=True)
class Frozen:
    """The present rows of a selection. `filter` is the text in its normal form."""

    seen: tuple[ExpectedState, ...]
    missing: tuple[str, ...]
    filter: str | None


async def freeze(conn: asyncpg.Connection, selection: Selection) -> Frozen:
    """Raise FilterError for a filter that cannot be parsed, OperationError for more rows than one operation allows."""
    if selection.filter is None:
        ids = selection.ids
        if len(ids) > MOST_ROWS:
            raise _too_many("you named")
        found = {row[0]: ExpectedState(*row) for row in await conn.fetch(statement(__name__, "op_see"), ids)}
        seen = tuple(found[task_id] for task_id in ids if task_id in found)
        return Frozen(seen, tuple(task_id for task_id in ids if task_id not in found), None)
    understood = parse(selection.filter)
    matched = await matching(conn, task_conditions(understood), MOST_ROWS + 1)
    if len(matched) > MOST_ROWS:
        raise _too_many("the filter matches")
    return Frozen(tuple(matched), (), understood.text)


async def present_value(conn: asyncpg.Connection, selection: Selection, column: str) -> str | None:
    """Return the common value of the waiting tasks in this column of `op_present`; None if they differ."""
    frozen = await freeze(conn, selection)
    row = await conn.fetchrow(statement(__name__, "op_present"), [one.task_id for one in frozen.seen])
    value: str | None = row[column]
    return value


def _too_many(who: str) -> OperationError:
    return OperationError(
        f"{who} more than {MOST_ROWS:,} tasks, the maximum for one operation",
        help_text="narrow the filter, for example with since: and until:, and repeat",
    )
