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
    """`enter` folds or unfolds this part of a section."""

    section: str
    part: Hashable


@dataclass(frozen=True, slots=True)
class OpenTask:
    """`enter` opens this task."""

    task_id: str


@dataclass(frozen=True, slots=True)
class OpenWorkflow:
    """`enter` opens the graph of this workflow, on this node or on its first one."""

    workflow_id: str
    index: int | None = None


@dataclass(frozen=True, slots=True)
class ShowTasks:
    """`enter` opens the task list with this filter."""

    filter: str


@dataclass(frozen=True, slots=True)
class ShowWorkers:
    """`enter` opens the workers screen with this filter."""

    filter: str


Target: TypeAlias = Fold | OpenTask | OpenWorkflow | ShowTasks | ShowWorkers


@dataclass(frozen=True, slots=True)
class Line:
    """`key` identifies the line within its section when other lines are added or removed."""

    key: Hashable
    spans: Spans
    target: Target | None = None
    is_open: bool = False
    """For a line that folds."""

    @property
    def text(self) -> str:
        return "".join(span.text for span in self.spans)


@dataclass(frozen=True, slots=True)
class Section:
    """A part with a title. `more` stands at the right end of the title line."""

    key: str
    title: str
    lines: tuple[Line, ...]
    more: str = ""


SectionT = TypeVar("SectionT", bound=Section | None)


@dataclass(frozen=True, slots=True)
class Band:
    """Sections beside each other, each with its share of the width."""

    sections: tuple[Section, ...]


Document: TypeAlias = tuple[Band, ...]


def damaged(words: str) -> tuple[Line, ...]:
    """The line in place of lines that could not be drawn."""
    return (Line("damaged", (Span(words, Tone.BAD),)),)


def section(title: str, make: Callable[[], SectionT], kind: str, row_id: str) -> SectionT | Section:
    """The section that `make` returns; if it raises, one that says so. `kind` and `row_id`: whose section it is."""
    return drawn(title, make, lambda words: Section(title, title, damaged(words)), kind, row_id)
