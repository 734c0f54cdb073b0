"""The last output of each running task, in the worker's memory, for operators who look at it."""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from horsies.lifecycle.claim_token import Token

RING_BYTES: Final = 65_536
_LINE_BYTES: Final = 100
"""What a line takes beside its text."""
_ENDED: Final = 16
"""So many tasks that have ended keep their output: a follower must see the last lines."""


class OutputRing:
    """The last lines of one task, numbered from 1 on. `left_out` lines have no room any more."""

    __slots__ = ("_bytes", "_last", "_lines")

    def __init__(self) -> None:
        self._lines: deque[tuple[int, float, str, str]] = deque()
        self._bytes = 0
        self._last = 0

    def add(self, stream: str, line: str) -> None:
        self._last += 1
        self._lines.append((self._last, time.time(), stream, line))
        self._bytes += len(line) + _LINE_BYTES
        while self._bytes > RING_BYTES:
            self._bytes -= len(self._lines.popleft()[-1]) + _LINE_BYTES

    def since(self, after: int, most: int) -> dict[str, Any]:
        """The lines after that number, the last ones of them up to about `most` bytes."""
        found: deque[tuple[int, float, str, str]] = deque()
        size = 0
        for line in reversed(self._lines):
            size += len(line[-1]) + _LINE_BYTES
            if line[0] <= after or size > most:
                break
            found.appendleft(line)
        first = found[0][0] if found else self._last + 1
        return {"lines": list(found), "last": self._last, "left_out": first - after - 1}

    def tail(self, most: int) -> str:
        """The last lines, up to that many characters."""
        lines: deque[str] = deque()
        for *_, line in reversed(self._lines):
            most -= len(line) + 1
            if most < 0:
                break
            lines.appendleft(line)
        return "\n".join(lines)


class OutputRings:
    """The rings by claim. A task that writes nothing has none and costs nothing."""

    def __init__(self) -> None:
        self._running: dict[Token, OutputRing] = {}
        self._ended: dict[Token, OutputRing] = {}

    def add(self, token: Token, stream: str, line: str) -> None:
        ring = self._running.get(token)
        if ring is None:
            ring = self._running[token] = OutputRing()
        ring.add(stream, line)

    def ended(self, token: Token) -> None:
        ring = self._running.pop(token, None)
        if ring is not None:
            self._ended[token] = ring
            if len(self._ended) > _ENDED:
                del self._ended[next(iter(self._ended))]

    def of(self, token: Token) -> OutputRing | None:
        return self._running.get(token) or self._ended.get(token)
