"""Finds a workflow, and a node of it, by the given text; the command ends if that is ambiguous or unknown."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

import typer

from horsies.cli.reading import read
from horsies.cli.tables import say
from horsies.cli.verb_report import NOTHING_MATCHED
from horsies.domain.plain_text import clean
from horsies.operations.target import OperationError
from horsies.views import Ambiguous, WorkflowStory, find_workflow, workflow_story

if TYPE_CHECKING:
    from horsies.cli.reading import Connection, Session
    from horsies.config.contexts import DatabaseChoice
    from horsies.views import NodeView

SHOWN: Final = 200_000
ALL: Final = 1_000_000_000
_ALL_NODES: Final = 1_000_000
_NAMED: Final = 10


def read_workflow(choice: DatabaseChoice, role: str, text: str, *, most_characters: int = SHOWN) -> WorkflowStory:
    """Read a workflow with all its nodes."""

    async def work(session: Session) -> WorkflowStory | None:
        return await story_of(session.connection, text, most_characters)

    found = read(choice, role, work)
    if found is None:
        say(f"no workflow has the id {text}, or one that begins or ends so", stream=sys.stderr)
        raise typer.Exit(NOTHING_MATCHED)
    return found


async def story_of(connection: Connection, text: str, most_characters: int = SHOWN) -> WorkflowStory | None:
    found = await workflow_story(connection, text, most_nodes=_ALL_NODES, most_characters=most_characters)
    if isinstance(found, Ambiguous):
        raise ambiguous(found)
    return found


async def whole_id(connection: Connection, text: str) -> str:
    """An unknown id is returned unchanged: verbs refuse it like every other row that cannot be changed."""
    found = await find_workflow(connection, text)
    if isinstance(found, Ambiguous):
        raise ambiguous(found)
    return found or text


def node_named(story: WorkflowStory, name: str) -> NodeView:
    """Find a node by its node id, or else by its index."""
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
        help_text="name it as `horsies workflows graph` does, or by its index",
    )


def ambiguous(found: Ambiguous) -> OperationError:
    more = ["…"] if found.more else []
    return OperationError(
        f"several workflows begin or end with {found.text!r}",
        notes=["\n".join([*map(clean, found.ids), *more])],
        help_text="give more of the id",
    )
