"""Handles keys one at a time: the effect of a key is complete before the next key is dispatched."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from textual import events, on
from textual.app import App
from textual.message import Message

if TYPE_CHECKING:
    from textual.screen import Screen

Typed: TypeAlias = events.Key | events.Paste

_KEY_TIMEOUT_S: Final = 1.0
"""How long the next key waits. A removed widget loses its queued messages, so the message may never arrive."""
_AT_ONCE: Final = frozenset({"ctrl+c"})


class InTurn(App[int], inherit_bindings=False):
    """Dispatches a key when the previous one has taken effect; Textual sends it at once to the widget with the focus.

    On a slow link `/Cy` may arrive at once; it would then open the preview of a cancellation and confirm it.
    """

    @dataclass
    class Passed(Message):
        """A message queued behind a key: when it arrives, that key has been handled."""

        turn: int
        screen: Screen[Any]
        again: bool

    def __init__(self, *, ansi_color: bool | None = None) -> None:
        super().__init__(ansi_color=ansi_color)
        self._waiting: deque[Typed] = deque()
        self._turn = 0
        self.typed_at = 0.0
        """When the key or click in progress was made: a key may wait long for the effects of those before it."""
        self._patience: asyncio.TimerHandle | None = None

    async def on_event(self, event: events.Event) -> None:
        if isinstance(event, events.MouseEvent):
            self.typed_at = event.time
        if not isinstance(event, Typed) or event.is_forwarded or getattr(event, "key", "") in _AT_ONCE:
            await super().on_event(event)
        elif self._patience is not None:
            self._waiting.append(event)
        else:
            await self._take(event)

    async def _take(self, event: Typed) -> None:
        self._begin_turn()
        self.typed_at = event.time
        passed = self.Passed(self._turn, self.screen, again=True)
        way = self.focused or self.screen
        await super().on_event(event)
        way.post_message(passed)

    @on(Passed)
    def _after_key(self, passed: Passed) -> None:
        """Send the message a second time, to wait for effects of the key such as an opened menu or a new focus."""
        if passed.again:
            (self.focused or self.screen).post_message(self.Passed(passed.turn, passed.screen, again=False))
        elif self.screen is not passed.screen:
            self.screen.call_after_refresh(self._next, passed.turn)
        else:
            self._next(passed.turn)

    def _next(self, turn: int) -> None:
        if turn != self._turn or self._patience is None:
            return
        if self._waiting:
            self._begin_turn()  # keys that arrive meanwhile wait
            self.call_next(self._take, self._waiting.popleft())
        else:
            self._patience.cancel()
            self._patience = None

    def _begin_turn(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
        self._turn += 1
        self._patience = asyncio.get_running_loop().call_later(_KEY_TIMEOUT_S, self._next, self._turn)
