"""The labels of a graph's nodes: the sign of the state, the name, and the duration, progress or error."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rich.cells import cell_len

from horsies_tui.look.bars import progress_words
from horsies_tui.look.glyphs import cut_middle
from horsies_tui.look.lines import Span, cut_spans, words
from horsies_tui.look.tones import Tone, state_tone
from horsies_tui.look.units import LENGTH_WIDTH, length, number, ticking
from horsies_tui.workflow.graph import Vertex
from horsies_tui.workflow.graph_page import Wants

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime

    from horsies.config.recovery import RecoveryConfig
    from horsies.views import NodeView, Progress
    from horsies_tui.look.glyphs import Glyphs
    from horsies_tui.look.lines import Spans

_SIGN: Final = 2
"""Width of the sign of the state with a blank."""
_LEAST_NAME: Final = 16
"""Length to which a name is cut before the duration is left out."""
_ENDED: Final = frozenset({"COMPLETED", "FAILED", "SKIPPED"})


def state_of(node: NodeView) -> str:
    """The node's status, or a more specific state of its task."""
    if node.status in _ENDED:
        return node.status
    if node.next_retry_at is not None:
        return "RETRY"
    if node.status == "ENQUEUED" and node.task_status in ("CLAIMED", "RUNNING"):
        return node.task_status
    return node.status


def vertices(nodes: Sequence[NodeView]) -> list[Vertex]:
    return [Vertex(node.index, node.dependencies) for node in nodes]


def wants(nodes: Sequence[NodeView]) -> dict[int, Wants]:
    """Return the widths of the labels, computed from values that never change, so that the layout stays the same."""
    return {
        node.index: Wants(
            _SIGN + cell_len(node.label),
            1 + (2 * len(number(node.sub_total or 0)) + 1 if node.is_subworkflow else LENGTH_WIDTH),
        )
        for node in nodes
    }


@dataclass(frozen=True, slots=True)
class Labels:
    """The labels of all nodes at one moment."""

    nodes: Mapping[int, NodeView]
    now: datetime
    glyphs: Glyphs
    recovery: RecoveryConfig

    def label(self, index: int, width: int) -> Spans:
        """Return the label `✓ open_books 0.2s`, as much of it as fits."""
        node = self.nodes[index]
        state = state_of(node)
        sign = Span(self.glyphs.state(state), state_tone(state))
        if width <= _SIGN:
            return (sign,)
        tone = Tone.MUTED if state in ("SKIPPED", "PENDING") else None
        more = words(f" {self._progress(node)}", Tone.MUTED, self.glyphs)
        name = words(node.label, tone, self.glyphs).text
        room = width - _SIGN - cell_len(more.text)
        if not more.text.strip() or room < min(cell_len(name), _LEAST_NAME):
            return (sign, Span(f" {cut_middle(name, width - _SIGN, self.glyphs)}", tone))
        return (sign, Span(f" {cut_middle(name, room, self.glyphs)}", tone), more)

    def fact(self, index: int, width: int) -> Spans:
        """Return the line below a label with the node's problem."""
        return cut_spans((Span("  "), *self._facts(self.nodes[index])), width, self.glyphs)

    def is_trouble(self, index: int) -> bool:
        """Return whether the node failed, runs, or is about to run; keys jump between such nodes."""
        return self.nodes[index].status in ("FAILED", "RUNNING", "ENQUEUED", "READY")

    def why_skipped(self, node: NodeView) -> str:
        """Return the reason why a node was skipped, like `import_us failed`."""
        ended = [self.nodes[need] for need in node.dependencies if need in self.nodes]
        bad = next((each for each in ended if each.status in ("FAILED", "SKIPPED")), None)
        return "" if bad is None else f"{bad.label} {bad.status.lower()}"

    def run(self, node: NodeView) -> str:
        """Return how long the node ran, or has been running."""
        if node.started_at is None or node.status == "SKIPPED":
            return ""
        if node.completed_at is not None:
            return length(node.completed_at - node.started_at)
        return ticking(self.now - node.started_at) if node.status == "RUNNING" else ""

    def _progress(self, node: NodeView) -> str:
        if node.sub_total is not None:
            return f"{number(node.sub_done or 0)}/{number(node.sub_total)}"
        return (node.progress.percent if node.progress is not None else "") or self.run(node)

    def _facts(self, node: NodeView) -> Iterator[Span]:
        state = state_of(node)
        if state == "SKIPPED" and (why := self.why_skipped(node)):
            yield words(why, Tone.MUTED, self.glyphs)
        elif state == "FAILED":
            yield words(node.error_code or "failed", Tone.FAILED, self.glyphs)
        elif state == "RETRY" and node.next_retry_at is not None:
            left = ticking(node.next_retry_at - self.now) if node.next_retry_at > self.now else "now"
            yield words(f"retry {left} {node.error_code or ''}", Tone.RETRY, self.glyphs)
        elif node.sub_total is not None and node.sub_failed:
            yield Span(f"{number(node.sub_failed)} failed", Tone.FAILED)
        elif state == "RUNNING" and node.last_beat is not None:
            beat = self._beat(node, node.last_beat)
            yield beat if node.progress is None or beat.tone is Tone.BAD else self._report(node.progress)
        elif state in ("ENQUEUED", "CLAIMED"):
            yield words(f"queue {node.queue}", Tone.MUTED, self.glyphs)

    def _report(self, progress: Progress) -> Span:
        said = progress_words(progress, self.now)
        return words(said.left or said.amount, Tone.MUTED, self.glyphs)

    def _beat(self, node: NodeView, last_beat: datetime) -> Span:
        silence = self.now - last_beat
        late = silence.total_seconds() * 1000 > self.recovery.running_stale_threshold_ms
        tries = f"  try {node.retry_count + 1}/{node.max_retries + 1}" if node.retry_count else ""
        return Span(f"{self.glyphs.heart} {ticking(silence)}{tries}", Tone.BAD if late else Tone.MUTED)
