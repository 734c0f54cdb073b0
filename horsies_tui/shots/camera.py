"""Takes screenshots of the real console: starts it, performs the operator's steps, waits until nothing changes."""

from __future__ import annotations

import asyncio
import os
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from textual import events
from textual.widgets import Input, TextArea

from horsies.config.contexts import ConfigFile, Context, DatabaseChoice
from horsies.operations.target import Actor
from horsies.testing import embedded_database
from horsies_tui.feed.clock import FrozenClock
from horsies_tui.feed.status import LinkState
from horsies_tui.settings import ConsoleOptions, ConsoleSettings
from horsies_tui.shell.app import ConsoleApp
from horsies_tui.shell.keymap import keymap
from horsies_tui.shots.scene import MOMENT, address_of, copied, nowhere, set_scene
from horsies_tui.story.beside import StoryPane
from horsies_tui.textual_internals import drawn, show_cursor

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping

    from textual.pilot import Pilot

_PATIENCE_S: Final = 20.0
_LOOK_S: Final = 0.025
_REST_S: Final = 0.05
"""With 20 ms, a screen on a busy machine was taken before its last rows arrived."""
_ACTOR: Final = Actor("ops", "bastion")
_NOWHERE: Final = "old-shop"
_CONFIG_PATH: Final = Path("~/.config/horsies/config.toml")
_FILTERS: Final = {"stuck": "status:running run:>10m", "money": "queue:pay status:failed since:1h"}


@dataclass(frozen=True, slots=True)
class Stand:
    """The objects that the steps of a screenshot use."""

    pilot: Pilot[int]
    app: ConsoleApp
    clock: FrozenClock
    url: str

    @property
    def lines(self) -> list[str]:
        """Return the text on the terminal."""
        strips = drawn(self.app.screen)
        return ["".join(segment.text for segment in strip) for strip in strips]

    async def until(self, condition: Callable[[], bool], what: str) -> None:
        """Wait for a condition. It is checked after each painting, and ten times a second for conditions outside the
        screen. Reading the screen takes 6 ms, and a pause of the pilot sends a message to each widget.
        """
        painted = self.paints()
        for look in range(round(_PATIENCE_S / _LOOK_S)):
            if painted.is_set() or look % 4 == 0:
                painted.clear()
                if condition():
                    await self.pilot.pause()  # its effects have been drawn, too
                    return
            await asyncio.sleep(_LOOK_S)
        shown = "\n".join(self.lines)
        raise TimeoutError(f"{what} did not come in {_PATIENCE_S:g} s:\n{shown}")

    def paints(self) -> asyncio.Event:
        """Return an event that each painting sets from now on."""
        painted = asyncio.Event()
        self.app.post_display_hook = painted.set  # type: ignore[method-assign]
        return painted


Step: TypeAlias = "Callable[[Stand], Awaitable[None]]"


@dataclass(frozen=True, slots=True)
class Shot:
    """A screenshot. `name` is part of the file name, followed by the size."""

    name: str
    columns: int = 120
    rows: int = 40
    steps: tuple[Step, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    context: str = "shop-eu"
    no_colour: bool = False
    spoils: bool = False
    """True if the steps change the database."""

    @property
    def file_name(self) -> str:
        return f"{self.name}-{self.columns}x{self.rows}.svg"


async def take(shot: Shot, url: str) -> str:
    """Return the screenshot as SVG; its last line names the classes of the view and the sheets in it."""
    clock = FrozenClock(MOMENT)
    with _colours(no_colour=shot.no_colour):
        app = ConsoleApp(_options(shot, url), keys=keymap({}, _CONFIG_PATH), clock=clock, actor=_ACTOR)
    app.animation_level = "none"
    async with app.run_test(size=(shot.columns, shot.rows)) as pilot:
        stand = Stand(pilot, app, clock, url)
        await stand.until(lambda: _has_all(app, shot), "everything that the screen needs")
        for step in shot.steps:
            await step(stand)
        await _at_rest(stand)
        top = app.stage.top
        shows = {type(screen).__name__ for screen in app.screen_stack} | {type(top).__name__}
        return f"{app.export_screenshot(title='horsies tui')}\n<!-- shows {' '.join(sorted(shows))} -->\n"


def press(*keys: str) -> Step:
    """Return a step that presses these keys, one after the other."""

    async def step(stand: Stand) -> None:
        await stand.pilot.press(*keys)

    return step


def types(text: str) -> Step:
    """Return a step that pastes this text into the focused field."""

    async def step(stand: Stand) -> None:
        stand.app.post_message(events.Paste(text))
        await stand.pilot.pause()

    return step


def sees(*words: str) -> Step:
    """Return a step that waits until these words are on the screen."""

    async def step(stand: Stand) -> None:
        await stand.until(lambda: _stand(words, stand.lines), repr(words))

    return step


def _stand(words: tuple[str, ...], lines: list[str]) -> bool:
    return all(any(word in line for line in lines) for word in words)


def _options(shot: Shot, url: str) -> ConsoleOptions:
    here = address_of(url)
    contexts = (
        Context("shop-eu", here, colour="green"),
        Context("shop-us", nowhere(), colour="blue"),
        Context(_NOWHERE, nowhere(), colour="yellow", read_only=True),
        Context("prod", here, production=True),
    )
    by_name = {context.name: context for context in contexts}
    chosen = by_name[shot.context]
    config = ConfigFile(_CONFIG_PATH, by_name, "shop-eu", mask_arguments=("iban",))
    choice = DatabaseChoice(chosen.url, f"context {chosen.name!r}, given by --context", chosen)
    return ConsoleOptions(
        choice,
        config,
        **{"settings": ConsoleSettings(filters=_FILTERS), "theme": "horsies-dark", "screen": "tasks", **shot.options},
    )


def _has_all(app: ConsoleApp, shot: Shot) -> bool:
    """Return whether all data of the view and the header are read, or the database is unreachable as intended. On a
    busy machine the first attempt to connect may fail and the next one succeed.
    """
    link = app.link
    if shot.context == _NOWHERE:
        return link.status.state is LinkState.DOWN
    view = app.stage.top
    if link.status.state is not LinkState.LIVE or view is None or app.recovery.snapshot.report is None:
        return False
    snapshot: Any = getattr(view.feed, "snapshot", None)
    known = snapshot is None or (not snapshot.loading and getattr(snapshot, "slow_s", None) is None)
    return known and getattr(snapshot, "counts", True) is not None


async def _at_rest(stand: Stand) -> None:
    """Wait until the terminal no longer changes while the loop runs. The cursor of a field stops blinking, visible."""
    field = stand.app.focused
    if isinstance(field, (Input, TextArea)):
        show_cursor(field)
    await stand.until(lambda: all(pane.is_read for pane in stand.app.query(StoryPane)), "the story of the row")
    top = stand.app.stage.top
    feed: Any = None if top is None else top.feed
    if feed is not None and stand.app.link.status.is_up:
        await stand.until(lambda: feed.is_read, "all reads of the view")
    painted = stand.paints()
    before: list[Any] = []
    still = 0
    for _ in range(100):
        await stand.pilot.pause()
        await asyncio.sleep(_REST_S)
        still = 0 if painted.is_set() else still + 1
        if still == 2:  # an answer of a busy server came after one pause
            return
        if still:
            continue
        painted.clear()
        now = [list(strip) for strip in drawn(stand.app.screen)]
        if now == before:
            return
        before = now
    raise TimeoutError("the picture does not come to rest")


@contextmanager
def _colours(*, no_colour: bool) -> Iterator[None]:
    """Set NO_COLOR for this shot: Textual reads it when an application is created."""
    before = os.environ.pop("NO_COLOR", None)
    if no_colour:
        os.environ["NO_COLOR"] = "1"
    try:
        yield
    finally:
        os.environ.pop("NO_COLOR", None)
        if before is not None:
            os.environ["NO_COLOR"] = before


async def gallery(shots: Iterable[Shot]) -> AsyncIterator[tuple[Shot, str]]:
    """Take the screenshots one after the other. Shots that change their database get a copy of it."""
    with embedded_database() as made:
        await set_scene(made)
        for shot in shots:
            if shot.spoils:
                async with copied(made) as url:
                    yield shot, await take(shot, url)
            else:
                yield shot, await take(shot, made)
