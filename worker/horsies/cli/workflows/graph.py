"""`horsies workflows graph`: a workflow as lines, as JSON, or as a Mermaid flowchart."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Final

import typer

from horsies.cli.read_session import read
from horsies.cli.verbs.report import NOTHING_MATCHED
from horsies.cli.workflows.listing import workflow_report
from horsies.cli.workflows.node_lines import head, inconsistent_lines, node_lines
from horsies.display.formatting import details, inconsistency
from horsies.display.json_output import plain, print_json
from horsies.display.payload import SHOWN
from horsies.display.terminal import Screen, say
from horsies.operations.named_targets import story_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from horsies.cli.read_session import ReadSession
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
    say(*mermaid_lines(story.nodes) if mermaid else _drawn(story, screen))


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


_CLASSES: Final = {
    "COMPLETED": "fill:#d9f2dd,stroke:#2e7d32,color:#111",
    "FAILED": "fill:#f9d9d9,stroke:#c62828,color:#111",
    "RUNNING": "fill:#d9e8f9,stroke:#1565c0,color:#111",
    "RETRY": "fill:#fdf0d0,stroke:#b26a00,color:#111",
    "SKIPPED": "fill:#eeeeee,stroke:#9e9e9e,color:#555,stroke-dasharray:4",
}
"""States that are not here have no class: they wait."""


def mermaid_lines(nodes: Sequence[NodeView]) -> Iterator[str]:
    """Line by line. A child workflow has a double frame; colours add no information."""
    yield "flowchart LR"
    known = {node.index for node in nodes}
    for node in nodes:
        before, after = ('[["', '"]]') if node.is_subworkflow else ('["', '"]')
        shown = f":::{node.state.lower()}" if node.state in _CLASSES else ""
        yield f"    n{node.index}{before}{'<br/>'.join(map(_escaped, _said(node)))}{after}{shown}"
    for node in nodes:
        for need in node.dependencies:
            if need in known:
                yield f"    n{need} --> n{node.index}"
    used = {node.state for node in nodes}
    for name, style in _CLASSES.items():
        if name in used:
            yield f"    classDef {name.lower()} {style}"


def _said(node: NodeView) -> Iterator[str]:
    yield node.label
    code = f" {node.error_code}" if node.error_code else ""
    yield f"{node.state.lower()}{code}"
    yield from details(node)


def _escaped(text: str) -> str:
    """Letters, digits and harmless signs unchanged, all others as numbers: a name may contain anything."""
    return re.sub(r"[^\w .,:/()+-]", lambda found: f"#{ord(found[0])};", text)
