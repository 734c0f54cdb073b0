"""The targets of a verb as an operator names them: ids by their ends, filters, nodes, operations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from horsies.domain.plain_text import clean
from horsies.operations.selection import Selection
from horsies.operations.target import OperationError
from horsies.query import ActivityFilter
from horsies.views import Ambiguous, find_task, find_workflow, operation_page, workflow_story

if TYPE_CHECKING:
    from collections.abc import Mapping

    from horsies.domain.states import TargetKind
    from horsies.store.connect import Connection
    from horsies.views import NodeView, WorkflowStory

_WHOLE: Final = 36
_SEARCHED: Final = 1_000
_ALL_NODES: Final = 1_000_000
_NAMED: Final = 10


async def selected(connection: Connection, kind: TargetKind, given: Mapping[str, Any]) -> Selection:
    """Return the selection with whole ids. An unknown id is refused later, like any target that cannot be changed."""
    ids: list[str] = []
    match kind:
        case "task" | "workflow" if given["filter_text"] is not None:
            return Selection.of_filter(given["filter_text"])
        case "task":
            for text in given["ids"]:
                found = text if len(text) == _WHOLE else await find_task(connection, text)
                if isinstance(found, Ambiguous):
                    raise ambiguous_task(found)
                ids.append(found or text)
        case "workflow":
            for text in given["ids"]:
                found = await find_workflow(connection, text)
                if isinstance(found, Ambiguous):
                    raise _ambiguous(found, "workflows", "give more of the id")
                ids.append(found or text)
        case "node":
            story = await story_of(connection, given["workflow_id"], most_characters=1)
            if story is None:
                raise OperationError(
                    f"no workflow has the id {given['workflow_id']}, or an id that begins or ends with it",
                    help_text="`horsies workflows ls` lists them",
                )
            return Selection.of_node(story.row.id, node_named(story, given["node"]).index)
        case "worker":
            ids += map(unshortened, given["workers"])
        case "operation":
            ids.append(str(await operation_of(connection, given["operation"])))
        case _:
            ids += given[f"{kind}s"]
    return Selection(tuple(dict.fromkeys(ids)))


def unshortened(text: str) -> str:
    """Return the id without the ellipsis of a shortened id that was copied from a list."""
    return text.removeprefix("…").removeprefix("...")


def ambiguous_task(found: Ambiguous) -> OperationError:
    return _ambiguous(found, "tasks", "give more of the id, or --filter to select all of these")


def _ambiguous(found: Ambiguous, things: str, help_text: str) -> OperationError:
    more = ["…"] if found.more else []
    return OperationError(
        f"several {things} begin or end with {found.text!r}",
        notes=["\n".join([*map(clean, found.ids), *more])],
        help_text=help_text,
    )


async def story_of(connection: Connection, text: str, *, most_characters: int) -> WorkflowStory | None:
    """Read a workflow with all its nodes, by its id or one end of it."""
    found = await workflow_story(connection, text, most_nodes=_ALL_NODES, most_characters=most_characters)
    if isinstance(found, Ambiguous):
        raise _ambiguous(found, "workflows", "give more of the id")
    return found


def node_named(story: WorkflowStory, name: str) -> NodeView:
    """Return the node with this id, or else with this index."""
    for node in story.nodes:
        if node.node_id == name:
            return node
    for node in story.nodes:
        if str(node.index) == name.removeprefix("#"):
            return node
    known = [node.label for node in story.nodes]
    more = ["…"] if len(known) > _NAMED else []
    raise OperationError(
        f"workflow {story.row.id} has no node {name!r}",
        notes=[f"its nodes: {', '.join([*known[:_NAMED], *more])}"] if known else [],
        help_text="give its name from `horsies workflows graph`, or its index",
    )


async def operation_of(connection: Connection, text: str) -> UUID:
    """Return the operation with this id, or the one among the newest whose id ends with it."""
    wanted = unshortened(text).lower()
    if len(wanted) == _WHOLE:
        try:
            return UUID(wanted)
        except ValueError as error:
            raise _unknown_operation(text) from error
    page = await operation_page(connection, ActivityFilter(), limit=_SEARCHED, count_up_to=1)
    fitting = {row.operation_id for row in page.rows if wanted and str(row.operation_id).endswith(wanted)}
    if len(fitting) != 1:
        raise _unknown_operation(text)
    return fitting.pop()


def _unknown_operation(text: str) -> OperationError:
    return OperationError(
        f"{text!r} is not the id of an operation, nor the end of a recent one",
        help_text="`horsies audit ls` lists the actions of operators; --json shows whole ids",
    )
