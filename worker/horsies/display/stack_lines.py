"""The stack of a running task as lines: the place of each frame, its code, and what has changed since."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_LIBRARY: Final = re.compile(r".*/(?:site-packages|dist-packages|lib/python3\.\d+)/")
_PARTS: Final = 3


@dataclass(frozen=True, slots=True)
class StackLine:
    """A frame, or the name of the thread whose frames follow. `changed`: it was elsewhere before, or is new."""

    place: str
    function: str = ""
    source: str = ""
    is_users: bool = True
    changed: bool = False
    thread: bool = False
    variables: Mapping[str, Any] | None = None


def lines_of(stack: Mapping[str, Any], before: Mapping[str, Any] | None = None) -> list[StackLine]:
    """Return the frames of the task, innermost first, then those of its threads."""
    earlier = {} if before is None else dict(before["threads"])
    lines = list(_frames(stack["frames"], None if before is None else before["frames"]))
    for name, frames in stack["threads"]:
        lines.append(StackLine(f"thread {name}".strip(), thread=True))
        lines += _frames(frames, None if before is None else earlier.get(name, []))
    return lines


def innermost(stack: Mapping[str, Any]) -> StackLine | None:
    """Return the innermost line of the application's own code, or of any code if there is none."""
    lines = list(_frames(stack["frames"], None))
    return next((line for line in lines if line.is_users), lines[0] if lines else None)


def is_same(stack: Mapping[str, Any], before: Mapping[str, Any]) -> bool:
    """Return whether every frame is where it was: the task hangs, or a loop was met at the same line."""
    return not any(line.changed for line in lines_of(stack, before)) and len(lines_of(stack)) == len(lines_of(before))


def _frames(frames: Sequence[Mapping[str, Any]], before: Sequence[Mapping[str, Any]] | None) -> Iterator[StackLine]:
    """Compare the frames from the outermost on: what a loop calls changes, the loop does not."""
    same = len(frames)
    if before is not None:
        pairs = zip(reversed(frames), reversed(before), strict=False)
        same = sum(1 for _ in takewhile(lambda pair: _where(pair[0]) == _where(pair[1]), pairs))
    for depth, frame in zip(range(len(frames) - 1, -1, -1), frames, strict=True):
        yield StackLine(
            place=f"{short_file(frame['file'])}:{frame['line']}",
            function=frame["function"],
            source=frame["source"],
            is_users=frame["user"],
            changed=depth >= same,
            variables=frame.get("locals"),
        )


def short_file(file: str) -> str:
    """Return the last parts of a path, as `shop/pay.py`, or for a library the path within it."""
    if found := _LIBRARY.match(file):
        return file[found.end() :]
    return "/".join(file.split("/")[-_PARTS:])


def is_library(file: str) -> bool:
    """Return whether a file belongs to an installed library or to Python itself."""
    return file.startswith("<frozen ") or _LIBRARY.match(file) is not None


def _where(frame: Mapping[str, Any]) -> tuple[Any, ...]:
    return frame["file"], frame["function"], frame["line"]
