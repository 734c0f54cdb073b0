"""Steps for tests of the frame: the whole application on a test's database, and the text on its terminal."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from textual.pilot import Pilot
from verb_steps import until

from horsies.config.contexts import ConfigFile, Context, DatabaseChoice
from horsies.config.url import DatabaseUrl
from horsies_tui.settings import ConsoleOptions
from horsies_tui.shell.app import ConsoleApp
from horsies_tui.shell.keymap import keymap

NOWHERE = "postgresql://ops@127.0.0.1:1/app"


def options(url: str, **settings: Any) -> ConsoleOptions:
    """Two contexts: `shop` is the test's database, `down` never answers."""
    contexts = {
        "shop": Context("shop", DatabaseUrl.parse(url)),
        "down": Context("down", DatabaseUrl.parse(NOWHERE), colour="yellow"),
    }
    context = replace(contexts[settings.pop("start", "shop")], **settings.pop("context", {}))
    choice = DatabaseChoice(context.url, f"context {context.name!r}, given by --context", context)
    settings.setdefault("screen", "tasks")
    return ConsoleOptions(choice, ConfigFile(Path("/nowhere/config.toml"), contexts, None), **settings)


@asynccontextmanager
async def console(
    wanted: ConsoleOptions, size: tuple[int, int] = (120, 30), keys: dict[str, str] | None = None
) -> AsyncIterator[Pilot[int]]:
    app = ConsoleApp(wanted, keys=keymap(keys or {}, wanted.config.path))
    async with app.run_test(size=size) as pilot:
        yield pilot


def lines(pilot: Pilot[int]) -> list[str]:
    """The text on the terminal."""
    return ["".join(segment.text for segment in strip) for strip in pilot.app.screen._compositor.render_strips()]


def frame(pilot: Pilot[int]) -> list[str]:
    """The text of the screen below any sheet."""
    return [
        "".join(segment.text for segment in strip) for strip in pilot.app.screen_stack[0]._compositor.render_strips()
    ]


async def resize(pilot: Pilot[int], columns: int, rows: int) -> None:
    """Wait until the terminal has this size, and everything on it."""
    await pilot.resize_terminal(columns, rows)
    await until(pilot, lambda: [len(line) for line in lines(pilot)] == [columns] * rows, f"{columns}x{rows}")


async def live(pilot: Pilot[int]) -> None:
    await until(pilot, lambda: "LIVE" in frame(pilot)[0])
