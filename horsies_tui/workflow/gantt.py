"""A workflow on a time axis: the waits and runs of each node, and the critical path."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from enum import Enum, auto
from typing import TYPE_CHECKING, Final

from horsies_tui.look.tones import Tone, state_tone
from horsies_tui.workflow.graph_labels import state_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime

    from horsies.views import NodeRun, NodeView, WorkflowStory

_MOST_DEPTH: Final = 8


class Part(Enum):
    """A node's activity in a period. If two share a column, the one that is later in this list is drawn."""

    WAITS = auto()
    BACKOFF = auto()
    RUNS = auto()


@dataclass(frozen=True, slots=True)
class Bar:
    part: Part
    begin: datetime
    end: datetime
    tone: Tone | None = None


@dataclass(frozen=True, slots=True)
class TimedStory:
    """A workflow with the ended attempts of its nodes."""

    story: WorkflowStory
    runs: tuple[NodeRun, ...]


@dataclass(frozen=True, slots=True)
class GanttRow:
    """A node. `depth` counts the enclosing sub-workflows; `unfolded` is None for nodes that are not sub-workflows."""

    workflow_id: str
    node: NodeView
    depth: int
    bars: tuple[Bar, ...]
    runs: int
    critical: bool
    unfolded: bool | None

    @property
    def key(self) -> tuple[str, int]:
        return self.workflow_id, self.node.index

    @property
    def ran(self) -> timedelta:
        """Return the total duration of its runs."""
        return sum((bar.end - bar.begin for bar in self.bars if bar.part is Part.RUNS), timedelta())


@dataclass(frozen=True, slots=True)
class Gantt:
    begin: datetime
    end: datetime
    rows: tuple[GanttRow, ...] = field(default=())


def gantt(whole: TimedStory, parts: Mapping[str, TimedStory], unfolded: frozenset[str], now: datetime) -> Gantt:
    """Lay out the nodes in their order; below an unfolded node those of its sub-workflow, as far as they were read."""
    rows = tuple(_rows(whole, parts, unfolded, now, 0))
    row = whole.story.row
    bars = [bar for each in rows for bar in each.bars]
    begin = min([row.started_at or row.created_at, *(bar.begin for bar in bars)])
    end = max([row.completed_at or now, *(bar.end for bar in bars)])
    return Gantt(begin, max(end, begin + timedelta(milliseconds=1)), rows)


def _rows(
    timed: TimedStory, parts: Mapping[str, TimedStory], unfolded: frozenset[str], now: datetime, depth: int
) -> Iterator[GanttRow]:
    story = timed.story
    runs: dict[int, list[NodeRun]] = {}
    for run in timed.runs:
        runs.setdefault(run.index, []).append(run)
    path = critical_path(story.nodes, now)
    nodes = {node.index: node for node in story.nodes}
    for node in story.nodes:
        ready = _ready_at(node, nodes, story.row.started_at or story.row.created_at)
        part = node.sub_workflow_id
        is_open = None if part is None else part in unfolded
        bars = tuple(_bars(node, runs.get(node.index, ()), ready, now))
        many = sum(bar.part is Part.RUNS for bar in bars)
        yield GanttRow(story.row.id, node, depth, bars, many, node.index in path, is_open)
        if part is not None and is_open and part in parts and depth < _MOST_DEPTH:
            yield from _rows(parts[part], parts, unfolded, now, depth + 1)


def _ready_at(node: NodeView, nodes: Mapping[int, NodeView], begin: datetime) -> datetime | None:
    """Return the time at which its last dependency ended; None until all have ended."""
    ends = [nodes[need].completed_at for need in node.dependencies if need in nodes]
    known = [end for end in ends if end is not None]
    return None if len(known) < len(ends) else max(known, default=begin)


def _bars(node: NodeView, runs: Sequence[NodeRun], ready: datetime | None, now: datetime) -> Iterator[Bar]:
    if node.status == "SKIPPED":
        return
    at = ready
    for number, run in enumerate(runs):
        if at is not None and run.started_at > at:
            yield Bar(Part.BACKOFF if number else Part.WAITS, at, run.started_at)
        good = run.outcome == "COMPLETED"
        yield Bar(Part.RUNS, run.started_at, run.finished_at, Tone.COMPLETED if good else Tone.FAILED)
        at = run.finished_at
    started, state = node.started_at, state_of(node)
    between = Part.BACKOFF if runs else Part.WAITS
    if started is not None and (not runs or started >= runs[-1].finished_at):
        if at is not None and started > at:
            yield Bar(between, at, started)
        yield Bar(Part.RUNS, started, max(node.completed_at or now, started), state_tone(state))
    elif node.completed_at is None and at is not None and now > at:
        yield Bar(between, at, now)


def critical_path(nodes: Sequence[NodeView], now: datetime) -> frozenset[int]:
    """Return the chain from the node that ended last, or still runs, back through what each waited for longest."""
    known = {node.index: node for node in nodes}
    begun = [node for node in nodes if node.started_at is not None and node.status != "SKIPPED"]
    last = max(begun, key=lambda node: (node.completed_at or now, -node.index), default=None)
    path: set[int] = set()
    while last is not None and last.index not in path:
        path.add(last.index)
        needs = [known[need] for need in last.dependencies if need in known]
        ended = [need for need in needs if need.completed_at is not None and need.started_at is not None]
        last = max(ended, key=lambda node: (node.completed_at or now, -node.index), default=None)
    return frozenset(path)


def places(bars: Sequence[Bar], begin: datetime, end: datetime, width: int) -> list[Bar | None]:
    """The bar in each of the places of the axis. A run is one place wide at least."""
    found: list[Bar | None] = [None] * width
    for bar in sorted(bars, key=lambda bar: bar.part.value):
        first = _place(bar.begin, begin, end, width)
        last = _place(bar.end, begin, end, width)
        for at in range(first, max(last, first + (bar.part is Part.RUNS))):
            found[min(at, width - 1)] = bar
    return found


def _place(moment: datetime, begin: datetime, end: datetime, width: int) -> int:
    return min(max(round((moment - begin) / (end - begin) * width), 0), width)
