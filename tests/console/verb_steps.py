"""Steps for tests of operations: sheets on a small application, with a planned or a real operation."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

from textual.app import App, ComposeResult
from textual.pilot import Pilot
from textual.screen import ModalScreen

from horsies.config.contexts import ConfigFile, Context, DatabaseChoice
from horsies.config.url import DatabaseUrl
from horsies.operations.target import Actor, RowOutcome, Target
from horsies.operations.verb import OperationOutcome, Preview, Refusal
from horsies.operations.verbs import VERBS
from horsies_tui.feed.clock import DatabaseClock
from horsies_tui.feed.link import DatabaseLink
from horsies_tui.feed.report import RecoveryFeed, RecoverySnapshot
from horsies_tui.intents import FinishedOperation, Intent
from horsies_tui.look.glyphs import glyphs
from horsies_tui.settings import ConsoleOptions
from horsies_tui.shell.operation_flow import OperationFlow
from horsies_tui.view import ConsoleView

NOON = datetime(2026, 11, 18, 12, 0, tzinfo=UTC)
OPS = Actor("ops", "bastion")
REQUEUE = Intent(VERBS["task", "requeue"])
UNICODE = glyphs(ascii_only=False)
LOOK_S = 0.025


def a_task(number: int, state: str = "FAILED RATE_LIMITED") -> Target:
    return Target("task", f"019a7c2e-0000-{number:04}", "charge_card", state)


def a_preview(eligible: int = 2, refused: int = 0, **fields: Any) -> Preview:
    """The preview of a requeue of so many tasks, at noon."""
    usual = {
        "verb": REQUEUE.verb,
        "options": {},
        "eligible": tuple(a_task(number) for number in range(eligible)),
        "refused": tuple(
            Refusal(a_task(1000 + number, "COMPLETED"), "it is COMPLETED already") for number in range(refused)
        ),
        "consequences": ("runs once more",),
        "filter": None,
        "command": "horsies tasks requeue 019a",
        "taken_at": NOON,
    }
    return Preview(**{**usual, **fields})


def an_outcome(preview: Preview, **fields: Any) -> OperationOutcome:
    """An outcome in which everything eligible was done."""
    usual = {"rows": tuple(RowOutcome(target, True, "PENDING, try 2") for target in preview.eligible)}
    return OperationOutcome(UUID(int=1), preview.verb, **{**usual, **fields})


@dataclass
class PlannedOperation:
    """Returns this preview; applies it once `gate` is set; raises `trouble` instead if it is given."""

    preview: Preview | Exception
    intent: Intent = REQUEUE
    gate: asyncio.Event | None = None
    trouble: Exception | None = None
    looks: list[bool] = field(default_factory=list)
    deeds: list[str | None] = field(default_factory=list)

    async def look(self, *, fresh_budget: bool = False) -> Preview:
        self.looks.append(fresh_budget)
        if isinstance(self.preview, Exception):
            raise self.preview
        return self.preview

    async def do(
        self, preview: Preview, reason: str | None, on_progress: Callable[[int, int], None]
    ) -> FinishedOperation:
        self.deeds.append(reason)
        on_progress(500, 1200)
        if self.trouble is not None:
            raise self.trouble
        return FinishedOperation(self.intent, preview, an_outcome(preview, stopped=await self._until_the_gate()))

    async def _until_the_gate(self) -> str | None:
        try:
            if self.gate is not None:
                await self.gate.wait()
        except asyncio.CancelledError:
            return "interrupted"
        return None


class SheetApp(App[None]):
    """An application with one sheet, and the result of the sheet."""

    def __init__(self, sheet: ModalScreen[Any]) -> None:
        super().__init__()
        self._sheet = sheet
        self.results: list[Any] = []

    def on_mount(self) -> None:
        self.push_screen(self._sheet, self.results.append)


class SmallConsole(App[None]):
    """The parts of the application that views and verbs use; `said` are the messages to the operator."""

    def __init__(
        self, url: str, view: type[ConsoleView[Any]], *, production: bool = False, read_only: bool = False
    ) -> None:
        super().__init__()
        database = DatabaseUrl.parse(url)
        context = Context("shop-eu", database, production=True) if production else None
        choice = DatabaseChoice(database, "for the test", context)
        config = ConfigFile(Path("config.toml"), {}, None, mask_arguments=("password",))
        self.options = ConsoleOptions(choice, config)
        self.utc = True
        self.stories = False
        self.link = DatabaseLink(choice, read_only=read_only, actor=OPS, clock=DatabaseClock())
        self.recovery = RecoveryFeed(self.link, self._drawn, every_s=0.05)
        self.said: list[str] = []
        self.offered = ""
        self.opened: list[str] = []
        self._view = view(id="view")
        self._verbs = OperationFlow(self)

    def compose(self) -> ComposeResult:
        yield self._view

    def on_mount(self) -> None:
        self._link_task = asyncio.create_task(self.link.run())
        self._view.attach(self.link)
        self._view.show()
        self.recovery.start()
        self.recovery.watch(True)

    async def on_unmount(self) -> None:
        """The link closes its connections before the loop of the test ends."""
        self.recovery.stop()
        self._link_task.cancel()
        with suppress(asyncio.CancelledError):
            await self._link_task

    def _drawn(self, snapshot: RecoverySnapshot) -> None:
        self._view.publish(snapshot)

    def say(self, text: str, *, offer: str = "") -> None:
        self.said.append(text)
        self.offered = offer

    def say_error(self, text: str) -> None:
        self.said.append(f"! {text}")

    def note(self, text: str) -> None:
        self.said.append(text)

    def open_task(self, task_id: str) -> None:
        self.opened.append(task_id)

    def show_tasks(self, filter_text: str) -> None:
        self.opened.append(filter_text)

    def show_schedules(self, filter_text: str) -> None:
        self.opened.append(f"schedules {filter_text}")

    def show_workflow(self, workflow_id: str, index: int | None = None) -> None:
        self.opened.append(workflow_id)

    def push_sheet(self, sheet: ModalScreen[Any], done: Callable[[Any], None]) -> None:
        self.push_screen(sheet, done)

    def why_no_writes(self) -> str | None:
        if self.link.status.read_only:
            return "read-only: this session changes nothing"
        return None if self.link.status.is_up else "not connected"

    def act(self, verb: str, view: ConsoleView[Any]) -> None:
        self._verbs.begin(verb, view)


def shown(sheet: ModalScreen[Any]) -> str:
    """The text on the screen, line by line."""
    lines = sheet.app.screen._compositor.render_strips()
    return "\n".join(strip.text.rstrip() for strip in lines)


async def until(pilot: Pilot[Any], holds: Callable[[], bool], what: str = "") -> bool:
    """Run the application until the condition holds; returns whether it has painted since it held.

    Reading the screen takes 6 ms, and a pause of the pilot sends a message to each widget. So the condition is asked
    when the application has painted, and ten times a second for what is not on the screen; meanwhile this sleeps.
    """
    painted = asyncio.Event()
    pilot.app.post_display_hook = painted.set
    for look in range(2000):
        if painted.is_set() or look % 4 == 0:
            painted.clear()
            if holds():
                await pilot.pause(0)  # its effects have been handled, too
                return painted.is_set()
        await asyncio.sleep(LOOK_S)
    raise AssertionError(f"never so: {what}\n{shown(pilot.app.screen)}")


async def sees(pilot: Pilot[Any], *words: str) -> str:
    """Wait until all of these words are on the screen; returns its text."""
    seen = ""

    def has_all() -> bool:
        nonlocal seen
        seen = shown(pilot.app.screen)
        return all(word in seen for word in words)

    has_changed = await until(pilot, has_all, f"shows {words}")
    return shown(pilot.app.screen) if has_changed else seen
