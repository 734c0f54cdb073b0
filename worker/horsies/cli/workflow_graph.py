"""`horsies workflows graph`: dependencies of nodes, as text, as Mermaid, or as JSON."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import typer

from horsies.cli.mermaid import mermaid as as_mermaid
from horsies.cli.reading import read
from horsies.cli.verb_report import NOTHING_MATCHED
from horsies.cli.workflow_lines import head, inconsistent_lines, node_lines
from horsies.cli.workflow_list import workflow_report
from horsies.display.json_output import plain, print_json
from horsies.display.node_details import inconsistency
from horsies.display.payload import SHOWN
from horsies.display.terminal import Screen, say
from horsies.operations.named_targets import story_of

if TYPE_CHECKING:
    from typing import Any

    from horsies.cli.reading import ReadSession
    from horsies.config.contexts import DatabaseChoice
    from horsies.views import NodeView, WorkflowStory


def draw_workflow(choice: DatabaseChoice, text: str, *, mermaid: bool, as_json: bool) -> None:
    story = read_workflow(choice, "workflows graph", text)
    if as_json:
        edges = [[need, node.index] for node in story.nodes for need in node.dependencies]
        nodes = [node_report(node) for node in story.nodes]
        workflow = workflow_report(story.row, story.now)
        print_json({"now": story.now, "workflow": workflow, "nodes": nodes, "edges": edges})
        return
    screen = Screen.of(sys.stdout)
    say(*as_mermaid(story.nodes) if mermaid else _drawn(story, screen))


def _drawn(story: WorkflowStory, screen: Screen) -> list[str]:
    return [*head(story, screen), "", *node_lines(story, screen), *inconsistent_lines(story)]


def node_report(node: NodeView) -> dict[str, Any]:
    """A node for `--json`: the stored fields, and those derived from them."""
    stored: dict[str, Any] = plain(node)
    return stored | {"state": node.state, "is_map": node.is_map, "out_of_step": inconsistency(node)}


def read_workflow(choice: DatabaseChoice, role: str, text: str, *, most_characters: int = SHOWN) -> WorkflowStory:
    """Read a workflow with all its nodes; the command ends if there is none."""

    async def work(session: ReadSession) -> WorkflowStory | None:
        return await story_of(session.connection, text, most_characters=most_characters)

    found = read(choice, role, work)
    if found is None:
        say(f"no workflow has the id {text}, or one that begins or ends so", stream=sys.stderr)
        raise typer.Exit(NOTHING_MATCHED)
    return found
