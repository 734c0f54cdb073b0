"""Steps for tests of the schedules screen: the console on it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from frame_steps import options
from textual.pilot import Pilot
from verb_steps import OPS, sees, shown, until

from horsies_tui.schedules.view import SchedulesView
from horsies_tui.shell.app import ConsoleApp

WIDE = (160, 45)


class Screen:
    def __init__(self, pilot: Pilot[Any]) -> None:
        self.pilot = pilot
        self.app = pilot.app

    @property
    def view(self) -> SchedulesView:
        return self.app.query_one(SchedulesView)

    @property
    def text(self) -> str:
        return shown(self.app.screen)

    @property
    def names(self) -> list[str]:
        return [row.name for row in self.view._table.rows]

    def line(self, word: str) -> str:
        """The first line with this word."""
        return next((line for line in self.text.splitlines() if word in line), "")

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)

    async def sees(self, *words: str) -> str:
        return await sees(self.pilot, *words)

    async def loses(self, word: str) -> None:
        await until(self.pilot, lambda: word not in self.text, f"no longer shows {word}")


@asynccontextmanager
async def schedules(url: str, size: tuple[int, int] = WIDE, **settings: Any) -> AsyncIterator[Screen]:
    app = ConsoleApp(options(url, screen="schedules", **settings), actor=OPS)
    async with app.run_test(size=size) as pilot:
        await until(pilot, lambda: app.link.status.is_up, "connects")
        yield Screen(pilot)
