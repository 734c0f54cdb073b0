"""The search in a task's screen. It runs in a thread, and again when the task changes."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

from textual.message import Message

from horsies_tui.story.page import Place
from horsies_tui.story.text_search import TextSearch, find_in_payload, hits
from horsies_tui.story.tree import Found

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from textual.widget import Widget

    from horsies_tui.story.payload import Payload
    from horsies_tui.story.view import StoryView


class DetailSearch:
    """The search of one view. Its message `Done` is posted to the view, which passes it to `take`."""

    @dataclass
    class Done(Message, bubble=False):
        """The payload was searched."""

        needle: str
        payload: Payload | None
        found: Mapping[str, Sequence[Found]]

    def __init__(self, view: Widget, story: StoryView, show: Callable[[], None]) -> None:
        self._view = view
        self._story = story
        self._show = show
        self._search = TextSearch()
        self._payload: Payload | None = None

    @property
    def needle(self) -> str:
        return self._search.needle

    def begin(self, needle: str) -> None:
        """Search for this text and go to the first match; an empty text ends the search."""
        self._search.begin(needle)
        self._start()

    def use(self, payload: Payload | None) -> None:
        """Search another payload, and drop the matches in the previous one."""
        if payload is not self._payload:
            self._payload = payload
            self._search.forget()
            self._start()

    def take(self, done: Done) -> None:
        if done.needle != self.needle or done.payload is not self._payload:
            return
        self._search.take(hits(self._story.document, done.found, done.needle))
        if self._search.is_new:
            self.step(1)
        else:
            self._mark()

    def step(self, step: int) -> None:
        """Go to the next match (negative: previous)."""
        hit = self._search.step(step)
        if hit is not None:
            line = hit.line
            tree = self._payload.tree(hit.section) if self._payload is not None else None
            if tree is not None and isinstance(line, Found):
                line = tree.reveal(line)
                self._show()
            self._story.go_to(Place(hit.section, line))
        self._mark()

    def _mark(self) -> None:
        self._story.mark(self._search.pattern, self._search.words)

    def _start(self) -> None:
        if self.needle:
            self._view.run_worker(self._find(self.needle, self._payload), group="search", exclusive=True)
        else:
            self._mark()

    async def _find(self, needle: str, payload: Payload | None) -> None:
        # In a thread, because a search through 200 kB takes 90 ms.
        found = {} if payload is None else await asyncio.to_thread(find_in_payload, payload, needle)
        self._view.post_message(self.Done(needle, payload, found))
