"""The targets of a verb as they are named on the command line: ids by their ends, filters, nodes, operations."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from horsies.cli.filters import chosen, understood, understood_workflows
from horsies.cli.formatting import unshortened
from horsies.cli.operation_ids import operation_of
from horsies.cli.reading import read
from horsies.cli.workflow_reading import node_named, story_of, whole_id
from horsies.domain.plain_text import clean
from horsies.operations.schedules import known_names
from horsies.operations.selection import Selection
from horsies.operations.target import OperationError
from horsies.query import TASKS, WORKFLOWS
from horsies.store.embedded import default_place
from horsies.views import Ambiguous, find_task

if TYPE_CHECKING:
    from collections.abc import Mapping

    from horsies.cli.reading import Connection, Session
    from horsies.config.contexts import DatabaseChoice
    from horsies.domain.states import TargetKind

_WHOLE: Final = 36
_COMPLETED_WITHIN_S: Final = 2.0


def check(kind: TargetKind, given: Mapping[str, Any]) -> None:
    """End the command before it connects if no target is named, or by a filter that cannot be parsed."""
    if kind not in ("task", "workflow"):
        return
    chosen(given["ids"], given["filter_text"], TASKS if kind == "task" else WORKFLOWS)
    if given["filter_text"] is not None:
        (understood if kind == "task" else understood_workflows)(given["filter_text"])


async def selected(connection: Connection, kind: TargetKind, given: Mapping[str, Any]) -> Selection:
    """Return the selection with whole ids. An unknown one is refused later, like every unfit target."""
    match kind:
        case "task" | "workflow" if given["filter_text"] is not None:
            return Selection.of_filter(given["filter_text"])
        case "task":
            return Selection.of_ids([await _whole(connection, text) for text in given["ids"]])
        case "workflow":
            return Selection.of_ids([await whole_id(connection, text) for text in given["ids"]])
        case "node":
            return await _node(connection, given["workflow_id"], given["node"])
        case "worker":
            return Selection.of_ids(map(unshortened, given["workers"]))
        case "queue":
            return Selection.of_ids(given["queues"])
        case "schedule":
            return Selection.of_ids(given["schedules"])
        case "session":
            return Selection.of_ids(given["sessions"])
        case _:
            return Selection.of_ids([str(await operation_of(connection, given["operation"]))])


def names_of_schedules(choice: DatabaseChoice) -> list[str]:
    """Return names for completion: none if the database does not answer at once, or does not exist."""

    async def names(session: Session) -> list[str]:
        async with asyncio.timeout(_COMPLETED_WITHIN_S):
            return [name for name, is_defined in (await known_names(session.connection)).items() if is_defined]

    if choice.url is None and not os.path.isdir(default_place().data):  # noqa: PTH112 - as in make_if_wished
        return []
    with suppress(Exception):
        return read(choice, "completion", names)
    return []


async def _whole(connection: Connection, text: str) -> str:
    if len(text) == _WHOLE:
        return text
    found = await find_task(connection, text)
    if isinstance(found, Ambiguous):
        raise ambiguous(found)
    return found or text


def ambiguous(found: Ambiguous) -> OperationError:
    more = ["…"] if found.more else []
    return OperationError(
        f"several tasks begin or end with {found.text!r}",
        notes=["\n".join([*map(clean, found.ids), *more])],
        help_text="give more of the id, or --filter for all of them",
    )


async def _node(connection: Connection, workflow_id: str, node: str) -> Selection:
    story = await story_of(connection, workflow_id)
    if story is None:
        raise OperationError(
            f"no workflow has the id {workflow_id}, or one that begins or ends so",
            help_text="`horsies workflows ls` lists them",
        )
    return Selection.of_node(story.row.id, node_named(story, node).index)
