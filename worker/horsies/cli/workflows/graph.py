"""`horsies workflows graph`: a workflow as a list with lines for dependencies, as JSON, or as a Mermaid flowchart."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from horsies.cli.reading import read, require_found
from horsies.config.contexts import DatabaseChoice
from horsies.display.formatting import details, headline, inconsistency, lasting, number, short, state, way_out
from horsies.display.json_output import plain, print_json
from horsies.display.payload import SHOWN
from horsies.display.terminal import Screen, TableCell, TableColumn, say, table
from horsies.domain.plain_text import clean
from horsies.operations.named_targets import story_of
from horsies.views import NodeView, WorkflowRow, WorkflowStory

MOST_RAILS: Final = 30
"""The limit of parallel lines; more cannot be followed by eye."""
_PARTS: Final = ("node", "down", "across", "right", "left", "both", "end right", "end left", "end both")
_UNICODE: Final = "●│─├┤┼└┘┴"
_ASCII: Final = "*|-+++`''"
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


def draw_workflow(choice: DatabaseChoice, text: str, *, mermaid: bool, as_json: bool) -> None:
    story = read_workflow(choice, "workflows graph", text)
    screen = Screen.of(sys.stdout)
    if as_json:
        edges = [[need, node.index] for node in story.nodes for need in node.dependencies]
        nodes = [node_report(node) for node in story.nodes]
        workflow = workflow_report(story.row, story.now)
        print_json({"now": story.now, "workflow": workflow, "nodes": nodes, "edges": edges})
    elif mermaid:
        say(*_mermaid_lines(story.nodes))
    else:
        say(*head(story, screen), "", *node_lines(story, screen))


def workflow_report(row: WorkflowRow, now: datetime) -> dict[str, Any]:
    """Return a workflow for `--json`: the stored fields, and those derived from them at `now`."""
    stored: dict[str, Any] = plain(row)
    return stored | {"done": row.done, "share": row.share, "age_s": now - row.sent_at, "run_s": row.run(now)}


def node_report(node: NodeView) -> dict[str, Any]:
    """Return a node for `--json`: the stored fields, and those derived from them."""
    stored: dict[str, Any] = plain(node)
    return stored | {"state": node.state, "is_map": node.is_map, "out_of_step": inconsistency(node)}


def read_workflow(choice: DatabaseChoice, role: str, text: str, *, most_characters: int = SHOWN) -> WorkflowStory:
    """Read a workflow with all its nodes; the command ends if there is none."""
    found = read(choice, role, lambda session: story_of(session.connection, text, most_characters=most_characters))
    return require_found(found, "workflow", text)


def head(story: WorkflowStory, screen: Screen) -> Iterator[str]:
    row = story.row
    yield headline(row.status, row.error_code, row.name, row.id, screen)
    parts = [f"{number(row.done)} of {number(row.total)} done"]
    parts += [f"{number(count)} {name}" for name, count in row.by_state().items()]
    yield f"{', '.join(parts)}   ran {lasting(row.run(story.now))}   on error {clean(row.on_error)}"


def node_lines(story: WorkflowStory, screen: Screen) -> list[str]:
    """Return a line for each node, below all that it waits for, and what to do about inconsistent ones."""
    nodes = {node.index: node for node in story.nodes}
    rails = railed({node.index: node.dependencies for node in story.nodes}, unicode=screen.unicode)
    cells = [_cells(nodes[line.index], line, nodes, story.now, screen) for line in rails]
    lines = table(_COLUMNS, cells, screen) if cells else ["it has no nodes"]
    return lines + [clean(line) for line in way_out(story.nodes, story.row.id, story.row.status)]


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
    """Yield a node's dependencies, if no line shows them."""
    names = [nodes[need].label if need in nodes else f"#{need}, which is not there" for need in line.unseen]
    if names:
        more = f" and {number(len(names) - _NAMED)} more" if len(names) > _NAMED else ""
        yield f"after {', '.join(names[:_NAMED])}{more}"


_CLASSES: Final = {
    "COMPLETED": "fill:#d9f2dd,stroke:#2e7d32,color:#111",
    "FAILED": "fill:#f9d9d9,stroke:#c62828,color:#111",
    "RUNNING": "fill:#d9e8f9,stroke:#1565c0,color:#111",
    "RETRY": "fill:#fdf0d0,stroke:#b26a00,color:#111",
    "SKIPPED": "fill:#eeeeee,stroke:#9e9e9e,color:#555,stroke-dasharray:4",
}
"""Classes of states; nodes in other states wait."""


def _mermaid_lines(nodes: Sequence[NodeView]) -> Iterator[str]:
    """Yield a Mermaid flowchart. A child workflow has a double frame; colours add no information."""
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
    """Replace all but letters, digits and harmless signs by numbers: a name may contain anything."""
    return re.sub(r"[^\w .,:/()+-]", lambda found: f"#{ord(found[0])};", text)


@dataclass(frozen=True, slots=True)
class Railed:
    """A node and the lines before it. `unseen`: dependencies without a line, because of a cycle or a missing node."""

    index: int
    rails: str
    unseen: tuple[int, ...] = ()


def railed(needs: Mapping[int, Iterable[int]], *, unicode: bool = True) -> list[Railed]:
    """Return the nodes in an order in which each comes after all that it waits for. Too many lines are not drawn."""
    order = _order(needs)
    place = {index: number for number, index in enumerate(order)}
    seen = {
        index: tuple(need for need in dict.fromkeys(needs[index]) if place.get(need, len(place)) < place[index])
        for index in order
    }
    drawing = _Drawing(seen, dict(zip(_PARTS, _UNICODE if unicode else _ASCII, strict=True)))
    lines = [drawing.line(index) for index in order]
    if drawing.most > MOST_RAILS:
        return [Railed(index, "", tuple(dict.fromkeys(needs[index]))) for index in order]
    return [
        Railed(index, line, tuple(need for need in dict.fromkeys(needs[index]) if need not in seen[index]))
        for index, line in zip(order, lines, strict=True)
    ]


def _order(needs: Mapping[int, Iterable[int]]) -> list[int]:
    """Order one branch to its end before the next, which keeps the lines short. A cycle is cut at its lowest index."""
    waits = {index: {need for need in each if need in needs and need != index} for index, each in needs.items()}
    follow: dict[int, list[int]] = {index: [] for index in needs}
    for index, each in waits.items():
        for need in each:
            follow[need].append(index)
    free = sorted((index for index, each in waits.items() if not each), reverse=True)
    left = dict.fromkeys(sorted(needs))
    order: list[int] = []
    while left:
        index = free.pop() if free else next(iter(left))
        if index not in left:
            continue
        del left[index]
        order.append(index)
        for after in sorted(follow[index], reverse=True):
            waits[after].discard(index)
            if not waits[after] and after in left:
                free.append(after)
    return order


class _Drawing:
    """A drawing, line by line. A column holds the node whose line runs down in it."""

    def __init__(self, needs: Mapping[int, Sequence[int]], glyphs: Mapping[str, str]) -> None:
        self._needs = needs
        self._glyphs = glyphs
        self._left = dict.fromkeys(needs, 0)
        for each in needs.values():
            for need in each:
                self._left[need] += 1
        self._columns: list[int | None] = []
        self._ended: int | None = None
        self.most = 0

    def line(self, index: int) -> str:
        """Return the line of the next node."""
        columns = [column for column, node in enumerate(self._columns) if node in self._needs[index]]
        ending = [column for column in columns if self._ends_here(column)]
        own = ending[0] if ending else self._free_column()
        self.most = max(self.most, len(self._columns))
        low, high = min([own, *columns]), max([own, *columns])
        text = ""
        for column in range(len(self._columns)):
            text += self._sign(column, own, columns, low, high)
            text += self._glyphs["across"] if low <= column < high else " "
        self._go_on(index, own, columns, ending)
        return text.rstrip()

    def _ends_here(self, column: int) -> bool:
        node = self._columns[column]
        return node is not None and self._left[node] == 1

    def _free_column(self) -> int:
        """Return a free column, not below a node that has just ended: a line would seem to continue from there."""
        for column, node in enumerate(self._columns):
            if node is None and column != self._ended:
                return column
        self._columns.append(None)
        return len(self._columns) - 1

    def _sign(self, column: int, own: int, columns: Sequence[int], low: int, high: int) -> str:
        if column == own:
            return self._glyphs["node"]
        if column in columns:
            side = "right" if column == low else "left" if column == high else "both"
            return self._glyphs[f"end {side}" if self._ends_here(column) else side]
        if self._columns[column] is not None:
            return self._glyphs["down"]
        return self._glyphs["across"] if low < column < high else " "

    def _go_on(self, index: int, own: int, columns: Sequence[int], ending: Sequence[int]) -> None:
        for need in self._needs[index]:
            self._left[need] -= 1
        for column in ending:
            self._columns[column] = None
        self._columns[own] = index if self._left[index] else None
        self._ended = None if self._left[index] else own
        while self._columns and self._columns[-1] is None and len(self._columns) - 1 != self._ended:
            self._columns.pop()
