"""Deadlines of nodes that are to run again: one that has passed would expire them before any worker starts them."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from horsies.domain.codec import CodecError, parse_json, to_json
from horsies.domain.plan import MAP_DEFINITION
from horsies.store.statements import statement

if TYPE_CHECKING:
    from collections.abc import Sequence

    import asyncpg


def without_past_deadline(task_options: str | None, now: datetime) -> str | None:
    """The options of a node without a past deadline; unchanged if the deadline lies ahead or cannot be read."""
    options = _tree(task_options)
    try:
        passed = isinstance(options, dict) and datetime.fromisoformat(options["good_until"]) <= now
    except (KeyError, TypeError, ValueError):  # no deadline, or one that no worker could read either
        return task_options
    return to_json(options | {"good_until": None}) if passed else task_options


def map_without_past_deadline(kwargs: str | None, now: datetime) -> str | None:
    """The same for the arguments of a map's node, which hold the options of its items."""
    tree = _tree(kwargs)
    order = tree.get(MAP_DEFINITION) if isinstance(tree, dict) else None
    if not isinstance(order, dict) or not isinstance(stored := order.get("task_options"), str):
        return kwargs
    options = without_past_deadline(stored, now)
    return kwargs if options == stored else to_json({**tree, MAP_DEFINITION: {**order, "task_options": options}})


async def drop_past_deadlines(conn: asyncpg.Connection, keys: Sequence[tuple[str, int]]) -> None:
    """Within the caller's transaction, under the families' locks: for these nodes, which have no task yet."""
    columns = [key[0] for key in keys], [key[1] for key in keys]
    late = []
    for workflow_id, index, *texts, now in await conn.fetch(statement(__name__, "reopen_deadlines"), *columns):
        mended = [without_past_deadline(texts[0], now), map_without_past_deadline(texts[1], now)]
        if mended != texts:
            late.append((workflow_id, index, *mended))
    if late:
        await conn.execute(statement(__name__, "reopen_options"), *map(list, zip(*late, strict=True)))


def _tree(text: str | None) -> Any:
    try:
        return None if text is None else parse_json(text)
    except CodecError:
        return None
