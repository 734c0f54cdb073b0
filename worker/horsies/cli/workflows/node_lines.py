"""A workflow in lines: its state, and its nodes with lines between them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from horsies.cli.workflows.dag_lines import railed
from horsies.display.formatting import details, lasting, number, short, state, way_out
from horsies.display.terminal import TableCell, TableColumn, table
from horsies.domain.plain_text import clean

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from horsies.cli.workflows.dag_lines import Railed
    from horsies.display.terminal import Screen
    from horsies.views import NodeView, WorkflowStory

_NAMED: Final = 3
_COLUMNS: Final = (
    TableColumn(""),
    TableColumn("NODE", least=12),
    TableColumn("STATE"),
    TableColumn("RAN", right=True, rank=3),
    TableColumn("TRY", right=True, rank=5),
    TableColumn("ERROR", least=9, rank=1),
    TableColumn("", least=10, rank=2),
    TableColumn("TASK OR CHILD", rank=4),
)


def head(story: WorkflowStory, screen: Screen) -> Iterator[str]:
    row = story.row
    shown = state(row.status, screen)
    error = f" {clean(row.error_code)}" if row.error_code else ""
    painted = screen.paint(f"{shown.text}{error}", shown.style)
    yield f"{painted}  {screen.paint(clean(row.name), 'bold')}  {clean(row.id)}"
    parts = [f"{number(row.done)} of {number(row.total)} done"]
    parts += [f"{number(count)} {name}" for name, count in row.by_state().items()]
    yield f"{', '.join(parts)}   ran {lasting(row.run(story.now))}   on error {clean(row.on_error)}"


def node_lines(story: WorkflowStory, screen: Screen) -> list[str]:
    """A line for each node, below all that it waits for."""
    nodes = {node.index: node for node in story.nodes}
    lines = railed({node.index: node.dependencies for node in story.nodes}, unicode=screen.unicode)
    cells = [_cells(nodes[line.index], line, nodes, story.now, screen) for line in lines]
    return table(_COLUMNS, cells, screen) if cells else ["it has no nodes"]


def inconsistent_lines(story: WorkflowStory) -> list[str]:
    return [clean(line) for line in way_out(story.nodes, story.row.id, story.row.status)]


def _cells(
    node: NodeView, line: Railed, nodes: dict[int, NodeView], now: datetime, screen: Screen
) -> list[TableCell | str]:
    left = f" {lasting(node.next_retry_at - now)}" if node.state == "RETRY" and node.next_retry_at else ""
    return [
        line.rails,
        node.label,
        state(node.state, screen, left),
        lasting(None if node.started_at is None else (node.completed_at or now) - node.started_at),
        f"{node.retry_count + 1}/{node.max_retries + 1}" if node.retry_count else "",
        TableCell(node.error_code or "", "red" if node.status == "FAILED" else ""),
        ", ".join([*details(node), *_after(line, nodes)]),
        short(node.sub_workflow_id or node.task_id or "", screen),
    ]


def _after(line: Railed, nodes: dict[int, NodeView]) -> Iterator[str]:
    """Yield its dependencies, if no line shows them."""
    names = [nodes[need].label if need in nodes else f"#{need}, which is not there" for need in line.unseen]
    if names:
        more = f" and {number(len(names) - _NAMED)} more" if len(names) > _NAMED else ""
        yield f"after {', '.join(names[:_NAMED])}{more}"
