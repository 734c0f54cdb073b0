"""Steps for tests of the tasks screen: the whole console on a database."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from textual.pilot import Pilot
from verb_steps import sees, shown, until

from horsies.config.contexts import ConfigFile, DatabaseChoice
from horsies.config.url import DatabaseUrl
from horsies_tui.settings import ConsoleOptions, ConsoleSettings
from horsies_tui.shell.app import ConsoleApp
from horsies_tui.tasks.view import TasksView
from horsies_tui.widgets.typed_line import FilterInput

WIDE = (120, 40)
NAMED = {"stuck": "status:running run:>10m"}


class Screen:
    """The console, with its keys and the text that it shows."""

    def __init__(self, pilot: Pilot[Any]) -> None:
        self.pilot = pilot
        self.app = pilot.app

    @property
    def view(self) -> Any:
        return self.app.query_one(TasksView)

    @property
    def text(self) -> str:
        return shown(self.app.screen)

    @property
    def rows(self) -> list[str]:
        """The lines with rows below the titles."""
        lines = self.text.splitlines()
        return [line for line in lines[5:-1] if line.strip()]

    @property
    def cursor(self) -> str:
        return next((line for line in self.rows if line.startswith("▌")), "")

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)

    async def sees(self, *words: str) -> str:
        return await sees(self.pilot, *words)

    async def loses(self, word: str) -> None:
        await until(self.pilot, lambda: word not in self.text, f"no longer shows {word}")

    async def resize(self, columns: int, rows: int) -> None:
        """Wait until the terminal has this size, and everything on it."""
        await self.pilot.resize_terminal(columns, rows)
        await until(self.pilot, lambda: self.text.count("\n") == rows - 1, f"{columns}x{rows}")

    async def filter(self, text: str) -> None:
        await self.press("slash", "ctrl+u")
        self.type(text)
        await self.press("enter")

    def type(self, text: str) -> None:
        """Type into the filter bar, which is open."""
        field = self.app.focused
        assert isinstance(field, FilterInput)
        field.insert_text_at_cursor(text)


@asynccontextmanager
async def console(url: str, size: tuple[int, int] = WIDE, **options: Any) -> AsyncIterator[Screen]:
    config = ConfigFile(Path("config.toml"), {}, None)
    settings = ConsoleSettings(filters=NAMED, story=options.pop("story", True))
    choice = DatabaseChoice(DatabaseUrl.parse(url), "for the test")
    app = ConsoleApp(ConsoleOptions(choice, config, settings, **{"screen": "tasks", **options}))
    async with app.run_test(size=size) as pilot:
        yield Screen(pilot)
