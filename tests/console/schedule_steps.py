"""Steps for tests of the schedules screen: the console on it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from frame_steps import options
from task_steps import Screen
from verb_steps import OPS, until

from horsies_tui.schedules.view import SchedulesView
from horsies_tui.shell.app import ConsoleApp

WIDE = (160, 45)


class Schedules(Screen):
    @property
    def view(self) -> Any:
        return self.app.query_one(SchedulesView)

    @property
    def names(self) -> list[str]:
        return [row.name for row in self.view._table.rows]

    def line(self, word: str) -> str:
        """The first line with this word."""
        return next((line for line in self.text.splitlines() if word in line), "")


@asynccontextmanager
async def schedules(url: str, size: tuple[int, int] = WIDE, **settings: Any) -> AsyncIterator[Schedules]:
    app = ConsoleApp(options(url, screen="schedules", **settings), actor=OPS)
    async with app.run_test(size=size) as pilot:
        await until(pilot, lambda: app.link.status.is_up, "connects")
        yield Schedules(pilot)
