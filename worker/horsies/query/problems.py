"""Problems in a filter: the place, the reason and the nearest valid text."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING

from horsies.domain.errors import ErrorCode, HorsiesError
from horsies.domain.masking import mask_urls

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


@dataclass(frozen=True, slots=True)
class Problem:
    """An error from character `start` up to `end` of the text; `suggestion`, if any, is a correct replacement."""

    start: int
    end: int
    message: str
    suggestion: str | None = None

    def __str__(self) -> str:
        return self.message + (f"; did you mean {self.suggestion.strip()}?" if self.suggestion else "")


class FilterError(HorsiesError, ValueError):
    """An invalid filter, with every problem in it, in the order of their places."""

    default_code = ErrorCode.CLI_INVALID_ARGS

    def __init__(self, problems: Sequence[Problem], text: str, example: str) -> None:
        self.problems = list(problems)
        self.text = text
        self.example = example
        count = len(self.problems)
        super().__init__(
            f"invalid filter: {self.problems[0]}" if count == 1 else f"the filter has {count} errors",
            notes=[_pointed_at(text, problem, explained=count > 1) for problem in self.problems],
            help_text=f"a filter looks like: {example}",
        )

    def __reduce__(self) -> tuple[type[FilterError], tuple[list[Problem], str, str]]:
        # An exception is rebuilt from its args by default, which contain the message and not the problems.
        return type(self), (self.problems, self.text, self.example)


_WIDEST = 100


def _pointed_at(text: str, problem: Problem, *, explained: bool) -> str:
    """Return the text with the problem marked below it; of a long text only the part around it."""
    first = max(0, problem.start - _WIDEST // 2)
    text = mask_urls(text, keep_width=True)  # before a part is taken: half a URL does not look like one
    shown = "".join(char if char.isprintable() else " " for char in text[first : first + _WIDEST])
    start = problem.start - first
    width = max(1, min(problem.end - first, len(shown)) - start)
    marks = " " * start + "^" * width
    return f"{shown}\n{marks} {problem}" if explained else f"{shown}\n{marks}"


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Return the known word that is most similar to `word`, or the shortest that begins with it."""
    if not word:
        return None
    word, known = word.lower(), list(known)
    begin = [candidate for candidate in known if candidate.lower().startswith(word)]
    return min(begin, key=len) if begin else next(iter(get_close_matches(word, known, n=1, cutoff=0.5)), None)


class UnreadableValue(ValueError):  # noqa: N818 - in a filter the parser adds the place
    """A value that its key does not accept."""

    def __init__(self, message: str, suggestion: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.suggestion = suggestion
