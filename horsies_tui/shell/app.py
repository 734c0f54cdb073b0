"""The application: the frame around the views, the database link, and the services that views use.

For authors of screens: the whole interface is `view.Console`, the base class is `view.ConsoleView`, and VIEWS in
shell/views.py names the classes.
"""

from __future__ import annotations

import os
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar, cast

from textual import events, on

from horsies.config.contexts import Context, DatabaseChoice
from horsies.operations.target import Actor
from horsies_tui.actions import Action, Scope, bindings, key_for, live_actions
from horsies_tui.clipboard import copy
from horsies_tui.feed.clock import DatabaseClock
from horsies_tui.feed.link import DatabaseLink
from horsies_tui.look import themes
from horsies_tui.look.damage import drawn, listen
from horsies_tui.look.glyphs import glyphs
from horsies_tui.look.units import size, time_of_day, zone_of
from horsies_tui.shell.attention import Attention
from horsies_tui.shell.commanding import CommandingApp
from horsies_tui.shell.database_session import DatabaseSession
from horsies_tui.shell.error_list import ErrorLog, ErrorSheet
from horsies_tui.shell.footer import Footer
from horsies_tui.shell.header import Header, HeaderFacts, OutageLine
from horsies_tui.shell.in_turn import InTurn
from horsies_tui.shell.stage import ViewStage
from horsies_tui.shell.tabs import Tabs
from horsies_tui.shell.views import TABS, VIEWS
from horsies_tui.textual_internals import CrashKeepingApp, ExactScreen, handler_is_hidden
from horsies_tui.view import ConsoleView

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    from textual.app import ComposeResult
    from textual.command import Provider
    from textual.screen import ModalScreen

    from horsies_tui.feed.clock import ConsoleClock
    from horsies_tui.feed.status import LinkStatus
    from horsies_tui.look.damage import Damage
    from horsies_tui.settings import ConsoleOptions
    from horsies_tui.shell.picker import Picker
    from horsies_tui.task.view import DetailView
    from horsies_tui.widgets.rows_view import FilteredView
    from horsies_tui.workflow.view import WorkflowView

ResultT = TypeVar("ResultT")

WIDTHS: Final = ((0, "-narrow"), (100, "-medium"), (120, "-wide"))
"""Smallest terminal widths, in columns, and the CSS class that a screen has from each; styles and views test for it."""
_SHOW_RECOVERY: Final = ("recovery", "overview")
"""Views that draw the recovery report. It is read on all screens, because the header shows its count."""
_SECOND: Final = 1.0


def _action_commands() -> type[Provider]:
    from horsies_tui.shell.palette import ActionCommands

    return ActionCommands


def _named_filters() -> type[Provider]:
    from horsies_tui.shell.palette import NamedFilters

    return NamedFilters


class ConsoleApp(CommandingApp, InTurn, CrashKeepingApp[int], inherit_bindings=False):
    """The whole terminal application. `keys` is the result of `keymap.keymap` for the config file."""

    TITLE = "horsies"
    CSS_PATH = "console.tcss"
    BINDINGS = bindings(Scope.APP)
    COMMANDS: ClassVar[set[type[Provider] | Callable[[], type[Provider]]]] = {_action_commands, _named_filters}

    def __init__(
        self,
        options: ConsoleOptions,
        *,
        keys: Mapping[str, str] | None = None,
        clock: ConsoleClock | None = None,
        actor: Actor | None = None,
    ) -> None:
        theme = themes.THEMES[options.theme or themes.DEFAULT]
        # Textual evaluates NO_COLOR here: 24-bit greys, unless the theme uses the terminal's own colours.
        super().__init__(options, ansi_color=theme.ansi or None)
        self.HORIZONTAL_BREAKPOINTS = list(WIDTHS)
        self.options = options
        self.utc = True
        self._last_picker: Picker | None = None
        self.stories = options.settings.story
        self.shows_tracebacks = options.debug
        self._clock, self._actor = clock, actor or Actor.current()
        self._keys = dict(keys or {})
        self._glyphs = glyphs(ascii_only=options.ascii)
        self._errors = ErrorLog()
        self._on_leaving = ExitStack()
        self.attention = Attention(self, options.settings, self._glyphs, os.environ)
        self.outage = OutageLine()
        self._use(options.choice)
        self.header = Header(self._glyphs)
        self.tabs = Tabs(TABS, self._glyphs)
        self.stage = ViewStage(VIEWS, self.link)
        self.footer = Footer(self._glyphs)
        for known in themes.THEMES.values():
            self.register_theme(known)
        self.theme = theme.name
        self.ansi_color = None
        self.set_class(options.ascii, "-ascii")

    def get_default_screen(self) -> ExactScreen:
        return ExactScreen(id="_default")

    def compose(self) -> ComposeResult:
        yield from (self.header, self.tabs, self.command_line, self.outage, self.stage, self.export_line, self.footer)

    async def on_mount(self) -> None:
        self.set_keymap(self._keys)
        self._on_leaving.callback(listen(lambda damage: self.call_later(self._say_damage, damage)))
        # After ctrl+z and fg the terminal is empty, and Textual redraws only changes.
        self.app_resume_signal.subscribe(self, lambda _app: self.screen.refresh(layout=True))
        self.app_suspend_signal.subscribe(self, lambda _app: self.attention.give_back(), immediate=True)
        if self.options.clusters:
            self._pick(forced=True)
        else:
            self._session.start()
        await self.stage.go(self.options.screen)
        if self.options.task_id is not None:
            await self._open_task(self.options.task_id)
        self.set_interval(_SECOND, self._tick)

    async def on_unmount(self) -> None:
        self._on_leaving.close()
        self.attention.give_back()
        self.stop_reading_values()
        await self._session.stop()

    # Services for views, see view.Console.

    def say(self, text: str, *, offer: str = "") -> None:
        self.footer.say(text, error=False, offer=offer)

    def say_error(self, text: str) -> None:
        self._errors.add(time_of_day(self.link.clock.now(), zone_of(utc=self.utc)), text)
        for screen in self.screen_stack:
            if isinstance(screen, ErrorSheet):
                screen.show(self._errors.lines)
        self.footer.say(text, error=True)

    def _say_damage(self, damage: Damage) -> None:
        if (text := self._errors.words_for(damage)) is not None:
            self.say_error(text)

    def note(self, text: str) -> None:
        self.footer.note(text)

    def open_task(self, task_id: str) -> None:
        self.call_later(self._open_task, task_id)

    def show_tasks(self, filter_text: str) -> None:
        self.call_later(self._show_list, "tasks", filter_text)

    def show_workflow(self, workflow_id: str, index: int | None = None) -> None:
        self.call_later(self._show_workflow, workflow_id, index)

    def show_workers(self, filter_text: str) -> None:
        self.call_later(self._show_list, "workers", filter_text)

    def show_schedules(self, filter_text: str) -> None:
        self.call_later(self._show_list, "schedules", filter_text)

    def show_recovery(self) -> None:
        self.call_later(self.stage.follow, "recovery")

    def neighbour(self, step: int) -> str | None:
        below = self.stage.below
        return None if below is None else below.neighbour(step)

    def push_sheet(self, sheet: ModalScreen[ResultT], done: Callable[[ResultT | None], None]) -> None:
        if handler_is_hidden():
            return
        view = self.stage.top

        def closed(result: ResultT | None) -> None:
            if view is not None:
                view.busy(False)
            done(result)

        if view is not None:
            view.busy(True)
        self.push_screen(sheet, closed)

    def why_no_writes(self) -> str | None:
        status = self.link.status
        if status.read_only:
            return f"read-only: {status.no_writes or 'this session changes nothing'}"
        return None if status.is_up else f"not connected: {status.words(self.link.clock.now())}"

    def offers(self, action: Action) -> bool:
        if action.writes and self.why_no_writes():
            return False
        view = self.stage.top
        # The footer may be drawn before a new view has made its widgets.
        return view is None or not view.is_mounted or len(self.screen_stack) > 1 or view.fits(action)

    def act(self, verb: str, view: ConsoleView[Any]) -> None:
        """Start a verb of the view that is shown; ignore a click that arrives after another view covered this one."""
        if view is self.stage.top:
            self._verbs.begin(verb, view)

    async def _open_task(self, task_id: str) -> None:
        cast("DetailView", await self.stage.push("detail")).open(task_id)

    async def _show_list(self, name: str, filter_text: str) -> None:
        cast("FilteredView[Any]", await self.stage.follow(name)).filter_by(filter_text)

    async def _show_workflow(self, workflow_id: str, index: int | None) -> None:
        cast("WorkflowView", await self.stage.push("workflow")).open(workflow_id, index)

    # The database.

    def _use(self, choice: DatabaseChoice) -> None:
        watches = self.options.settings.title or self.options.settings.bell
        self._session = DatabaseSession(choice, self._link_to(choice), watches=watches, post=self.post_message)
        self.link, self.recovery = self._session.link, self._session.recovery
        self._told: tuple[str, ...] = ()
        self.outage.forget()
        self._framed = ""
        """The view that was shown last; empty before the first one, when messages are about the database."""

    def _link_to(self, choice: DatabaseChoice) -> DatabaseLink:
        wanted, clock = self.options, self._clock or DatabaseClock()
        return DatabaseLink(choice, read_only=wanted.read_only, actor=self._actor, clock=clock, poll_s=wanted.refresh_s)

    def _picked(self, context: Context | None) -> None:
        if context is not None:
            self._session.left = True
            self.call_later(self._go_to, context)

    async def _go_to(self, context: Context) -> None:
        """Switch to another database; a filter or a task from the command line is used for the first database only."""
        filter_text = self.options.filter if self.options.clusters else ""
        self.options = replace(self.options, filter=filter_text, task_id=None, clusters=())
        self.footer.message_over()
        self.footer.offer_over()
        await self._session.stop()
        options = f"--context {context.shown_name}"
        self._use(DatabaseChoice(context.url, f"context {context.shown_name!r}, chosen here", context, options))
        self._session.start()
        await self.stage.use(self.link)

    @on(DatabaseSession.LinkChanged)
    def _show_link_status(self, message: DatabaseSession.LinkChanged) -> None:
        if message.session.left:
            return
        status, picker = message.status, self._picker
        if status.lacks != self._told:
            self._told = status.lacks
            if status.lacks:
                # The command that helps comes first, because the end of the line may be cut off.
                self.say_error("; ".join((status.lacks[-1], *status.lacks[:-1])))
        self._note_outage(status)
        if picker is None and not status.is_up and status.last_data_at is None and status.detail:
            self._pick(forced=True)
        elif picker is not None and picker.forced and status.is_up:
            picker.dismiss(None)
        self._draw_frame()

    @on(DatabaseSession.RecoveryRead)
    def _show_recovery(self, message: DatabaseSession.RecoveryRead) -> None:
        if message.session.left or not self.is_running:
            return
        self._draw_frame()
        top = self.stage.top
        shows_recovery = self.stage.name_shown in _SHOW_RECOVERY and self.stage.below is None
        if shows_recovery and top is not None and top.frozen_at is None:
            top.publish(message.snapshot)

    def _note_outage(self, status: LinkStatus) -> None:
        """Add each new reason to the error list (`!`); the line above the view shows the current one."""
        for reason in self.outage.news(status):
            self.say_error(reason)

    def _pick(self, *, forced: bool) -> None:
        from horsies_tui.shell.picker import Picker

        self._last_picker = Picker(self.options, self._session.choice, self._glyphs, forced=forced)
        self.push_screen(self._last_picker, self._picked)

    # The frame.

    @property
    def _picker(self) -> Picker | None:
        return self._last_picker if self._last_picker in self.screen_stack else None

    def _draw_frame(self) -> None:
        if not (self.is_running and self.screen_stack):
            return  # a feed may still post a message while the console closes, and views have no widgets any more
        status, now = self._status, self.link.clock.now()
        need_action = self.recovery.snapshot.need_action
        top = self.stage.top
        zone = zone_of(utc=self.utc)
        frozen = "" if top is None or top.frozen_at is None else time_of_day(top.frozen_at, zone)
        counted = self.link.status.old_since("recovery") is None
        self.header.show(HeaderFacts(status, now, time_of_day(now, zone), need_action, frozen, counted))
        self.attention.look(self._session, self.link.status)
        self.tabs.show(self.stage.name_shown, {"recovery": need_action or 0})
        self.footer.draw_again()
        old_since = self._old_since(status)
        self.stage.set_class(old_since is not None, "-stale")
        self.outage.show(self.link.status, old_since, zone, lambda action: key_for(action, self.screen, self._glyphs))
        if self._picker is not None:
            self._picker.show(status, now)

    def _tick(self) -> None:
        """Draw the header's clock and update the ages in the views, once a second and in one frame.

        A timer in each view would send the terminal two frames a second.
        """
        if not self.is_running:
            return  # the console closes, and views may have no widgets any more
        self._draw_frame()
        for view in self.stage.query(ConsoleView):
            if (
                view.shown and view.is_mounted
            ):  # a view loses its widgets when the operator switches to another database
                drawn(f"the ages on the screen {view.id}", view.tick, lambda _words: None)

    def _old_since(self, status: LinkStatus) -> datetime | None:
        """Return the time at which the data on the screen were read, if they are not current."""
        if not status.is_up:
            return status.last_data_at
        return min((failure.since for failure in status.failing if failure.name in self._feeds_shown), default=None)

    @property
    def _feeds_shown(self) -> frozenset[str | None]:
        """Return the names of the views whose feeds are on the screen."""
        name = self.stage.top.id if self.stage.top is not None else None
        return frozenset({name, "recovery"} if name in _SHOW_RECOVERY else {name})

    @property
    def _status(self) -> LinkStatus:
        """Return the link's status for the feeds that are on the screen."""
        return self.link.status.on_screen(self._feeds_shown)

    @on(ConsoleView.FirstRows)
    def _look_on(self) -> None:
        self._session.first_rows()

    @on(ViewStage.Shown)
    def _frame_the_view(self, message: ViewStage.Shown) -> None:
        self.note("")
        if self._framed not in ("", message.name):
            self.footer.message_over()
        self._framed = message.name
        self.recovery.watch(message.name == "recovery", verdict=message.name == "overview")
        if message.name == "recovery":
            self._look_on()
        if message.name in _SHOW_RECOVERY:
            self.post_message(DatabaseSession.RecoveryRead(self._session, self.recovery.snapshot))
        self._draw_frame()

    @on(events.TextSelected)
    def _copy_selected(self) -> None:
        """Copy the selected text when the mouse is released, as terminals do."""
        text = self.screen.get_selected_text()
        if text and not copy(self.stage, text, size(len(text.encode()))):
            self.say_error("the selection is too large for the terminal's clipboard")

    @on(Tabs.Chosen)
    async def _go_to_tab(self, message: Tabs.Chosen) -> None:
        await self.stage.go(message.name)

    # Actions, see actions.py.

    async def action_show(self, tab: str) -> None:
        await self.stage.go(tab)

    def action_refresh(self) -> None:
        if self._picker is not None:
            self._picker.read_again()
        self._session.refresh()
        if self.stage.top is None:
            return
        if self.stage.top.frozen_at is not None:
            self.say(f"this view is frozen: {key_for('app.freeze', self.screen, self._glyphs)} makes it live again")
        self.stage.top.refresh_now()

    def action_end_blocker(self) -> None:
        self._verbs.end_blocker(self.stage.top)

    def action_freeze(self) -> None:
        view = self.stage.top
        if view is None:
            return
        on = view.frozen_at is None
        view.freeze(on)
        key = key_for("app.freeze", self.screen, self._glyphs)
        self.say(f"frozen: {key} makes this view live again" if on else "live again")
        if not on:
            self.post_message(DatabaseSession.RecoveryRead(self._session, self.recovery.snapshot))
        self._draw_frame()

    def action_contexts(self) -> None:
        self._pick(forced=False)

    def action_errors(self) -> None:
        self.push_screen(ErrorSheet(self._errors.lines, self._glyphs))

    def action_help(self) -> None:
        from horsies_tui.shell.help import HelpSheet, KeyList

        keys = KeyList(live_actions(self.screen), self._glyphs, no_writes=self.why_no_writes())
        self.push_screen(HelpSheet(keys, self._glyphs))

    def action_command_palette(self) -> None:
        from horsies_tui.shell.palette import ActionPalette

        if not any(isinstance(screen, ActionPalette) for screen in self.screen_stack):
            self.push_screen(ActionPalette(placeholder="Search actions"))

    def action_utc(self) -> None:
        self.utc = not self.utc
        self.say("times in UTC" if self.utc else "times in this machine's zone")
        if self.stage.top is not None:
            self.stage.top.times_changed()
        self._draw_frame()

    def action_theme(self) -> None:
        from horsies_tui.widgets.menus import Item, PickOne

        def choose(name: str | None) -> None:
            if name is not None:
                self.theme = name
                self.say(f'to keep it, set theme = "{name}" in the config file')

        self.push_sheet(
            PickOne("Theme", [Item(name, name) for name in themes.THEMES], self.theme, self._glyphs), choose
        )

    async def action_back(self) -> None:
        if self.export_line.stop():
            return
        view = self.stage.top
        if (view is None or not view.leave()) and not await self.stage.back():
            await self.stage.return_()

    async def action_leave(self) -> None:
        if not await self.stage.back():
            self.exit(0)

    def action_quit_now(self) -> None:
        self.exit(0)
