"""Lines of a story: pieces of text with a tone, and the action of `enter` on a line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from horsies_tui.look.damage import drawn
from horsies_tui.look.lines import Span
from horsies_tui.look.tones import Tone

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from horsies_tui.look.lines import Spans


@dataclass(frozen=True, slots=True)
class Fold:
    """Folds or unfolds a part of a section."""

    section: str
    part: Hashable


@dataclass(frozen=True, slots=True)
class OpenTask:
    """Opens a task."""

    task_id: str


@dataclass(frozen=True, slots=True)
class OpenWorkflow:
    """Opens the graph of a workflow, on this node or on the first one."""

    workflow_id: str
    index: int | None = None


@dataclass(frozen=True, slots=True)
class ShowTasks:
    """Opens the task list with a filter."""

    filter: str


@dataclass(frozen=True, slots=True)
class ShowWorkers:
    """Opens the workers screen with a filter."""

    filter: str


Target: TypeAlias = Fold | OpenTask | OpenWorkflow | ShowTasks | ShowWorkers


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a story. `key` identifies it within its section when other lines are added or removed."""

    key: Hashable
    spans: Spans
    target: Target | None = None
    is_open: bool = False
    """True if the part below this line is unfolded."""

    @property
    def text(self) -> str:
        return "".join(span.text for span in self.spans)


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a story with a title. `more` is shown at the right end of the title line."""

    key: str
    title: str
    lines: tuple[Line, ...]
    more: str = ""


SectionT = TypeVar("SectionT", bound=Section | None)


@dataclass(frozen=True, slots=True)
class Band:
    """Sections side by side, each with its share of the width."""

    sections: tuple[Section, ...]


Document: TypeAlias = tuple[Band, ...]


def damaged(words: str) -> tuple[Line, ...]:
    """Return the line that replaces lines that could not be drawn."""
    return (Line("damaged", (Span(words, Tone.BAD),)),)


def section(title: str, make: Callable[[], SectionT], kind: str, row_id: str) -> SectionT | Section:
    """Return the section from `make`, or one with the error if it raises. `kind` and `row_id` name its row."""
    return drawn(title, make, lambda words: Section(title, title, damaged(words)), kind, row_id)
