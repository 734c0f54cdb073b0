"""The commands of the command line: each calls what a key calls, and a verb opens the same preview as its key."""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, cast

from platformdirs import user_state_path
from textual import on
from textual.app import App

from horsies.config.contexts import read_config_file
from horsies.domain.errors import HorsiesError
from horsies.operations.selection import Selection
from horsies.operations.verb import COMMAND_GROUPS
from horsies.query import FilterError
from horsies_tui.actions import action_of
from horsies_tui.command.history import CommandHistory
from horsies_tui.command.line import CommandLine
from horsies_tui.feed.status import LinkError, sentence
from horsies_tui.intents import Intent
from horsies_tui.look import themes
from horsies_tui.look.glyphs import glyphs
from horsies_tui.settings import ConsoleSettings
from horsies_tui.shell.exporting import ExportLine
from horsies_tui.shell.programs import show, why_not_here
from horsies_tui.widgets.rows_view import FilteredView, present_on

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from textual.binding import Binding
    from textual.screen import ModalScreen
    from textual.widget import Widget

    from horsies.display.exporting import Format
    from horsies.domain.states import TargetKind
    from horsies.operations.verb import Verb
    from horsies.store.connect import Connection
    from horsies_tui.command.completing import Known
    from horsies_tui.command.grammar import Act, Command
    from horsies_tui.feed.link import DatabaseLink
    from horsies_tui.feed.suggested_values import KnownValues
    from horsies_tui.settings import ConsoleOptions
    from horsies_tui.shell.operation_flow import OperationFlow
    from horsies_tui.shell.stage import ViewStage
    from horsies_tui.view import Console, ConsoleView

_KINDS: Final[Mapping[str, TargetKind]] = {
    "overview": "queue",
    "detail": "task",
    "workflow": "workflow",
    "activity": "operation",
}
"""By screen, the kind of target that a command means if its name fits several kinds."""
_MOST_PLACES: Final = 9


class CommandingApp(App[int], inherit_bindings=False):
    """The part of the application that has the command line, exports and the user's programs."""

    options: ConsoleOptions
    link: DatabaseLink
    stage: ViewStage

    def __init__(self, options: ConsoleOptions, *, ansi_color: bool | None = None) -> None:
        super().__init__(ansi_color=ansi_color)
        self.command_line = CommandLine(CommandHistory(user_state_path("horsies") / "console-history"))
        self.export_line = ExportLine(glyphs(ascii_only=options.ascii))
        self.command_line.present = lambda: present_on(cast("Console", self))
        self._focused_before: Widget | None = None
        self._values: tuple[DatabaseLink, KnownValues] | None = None

    if TYPE_CHECKING:  # the rest of the application, see view.Console

        def say(self, text: str) -> None: ...

        def say_error(self, text: str) -> None: ...

        def why_no_writes(self) -> str | None: ...

        def open_task(self, task_id: str) -> None: ...

        def show_tasks(self, filter_text: str) -> None: ...

        def show_workflow(self, workflow_id: str, index: int | None = None) -> None: ...

        def show_workers(self, filter_text: str) -> None: ...

        def push_sheet(self, sheet: ModalScreen[Any], done: Callable[[Any], None]) -> None: ...

    @cached_property
    def _verbs(self) -> OperationFlow:
        from horsies_tui.shell.operation_flow import OperationFlow

        return OperationFlow(cast("Console", self))

    # The command line.

    def action_command(self, text: str = "") -> None:
        if len(self.screen_stack) > 1:
            return
        if not self.command_line.display:
            self._focused_before = self.focused
        self.command_line.open(self._known(), text)
        self._read_values()

    def action_export(self) -> None:
        self.action_command("export csv ")

    def action_save_filter(self) -> None:
        self.action_command("save ")

    @on(CommandLine.Closed)
    def _give_focus_back(self) -> None:
        before, top = self._focused_before, self.stage.top
        self._focused_before = None
        if before is not None and before.is_attached and before.focusable:
            before.focus()
        elif top is not None:
            top.take_focus()

    @on(CommandLine.Entered)
    def _run_command(self, message: CommandLine.Entered) -> None:
        """Run the command once the focus is back on the screen, because a verb's targets may depend on the focus."""
        message.stop()
        place = self.focused or self.screen
        place.call_later(self.call_later, self.run_command, message.command)

    async def run_command(self, command: Command) -> None:
        from horsies.display.exporting import Format
        from horsies_tui.command import grammar

        match command:
            case grammar.Show(screen, text):
                await self._show_screen(screen, text)
            case grammar.Go(wanted):
                self.run_worker(self._go_to_id(wanted), group="go", exclusive=True)
            case grammar.Act():
                self._act(command)
            case grammar.Recall(name):
                await self._recall(name)
            case grammar.Save(name):
                await self._save(name)
            case grammar.Forget(name):
                await self._forget(name)
            case grammar.ExportRows(form, path):
                self._export(Format(form), path)
            case grammar.Theme(name):
                self._use_theme(name)
            case grammar.OpenPart(part, pager):
                self._read_part(part, pager=pager)
            case grammar.RunAction(action):
                await self.run_action(f"app.{action}")

    # Screens and rows.

    async def _show_screen(self, screen: str, text: str | None) -> None:
        view = await (self.stage.go(screen) if text is None else self.stage.follow(screen))
        if text is not None and isinstance(view, FilteredView):
            view.filter_by(text)

    async def _go_to_id(self, wanted: str) -> None:
        from horsies_tui.widgets.menus import Item, PickOne

        try:
            places = await self.link.read(lambda conn: _places(conn, wanted))
        except LinkError as error:
            self.say_error(sentence(error))
            return
        if not places:
            self.say_error(f"no task, workflow or worker has an id that begins or ends with {wanted}")
        elif len(places) == 1:
            self._open_place(*places[0])
        elif {kind for kind, _ in places} == {"task"}:
            self.open_task(wanted)  # its screen lists all matches
        else:
            items = [Item(f"{kind} {one}", f"{kind} {one}") for kind, one in places[:_MOST_PLACES]]
            menu = PickOne("Open", items, "", glyphs(ascii_only=self.options.ascii))
            self.push_sheet(menu, lambda chosen: None if chosen is None else self._open_place(*chosen.split(" ", 1)))

    def _open_place(self, kind: str, wanted: str) -> None:
        from horsies.query import Term, WorkerFilter
        from horsies.query.values import Glob

        match kind:
            case "task":
                self.open_task(wanted)
            case "workflow":
                self.show_workflow(wanted)
            case _:
                self.show_workers(WorkerFilter((Term("id", (Glob.literal(wanted),)),)).text)

    # Verbs.

    def _act(self, act: Act) -> None:
        view = self.stage.top
        if view is None:
            return
        if act.targets or act.filter is not None:
            self._act_on_named(act, view)
        elif self._is_offered(act, view):
            self._verbs.begin(act.name, view, options=act.options, reason=act.reason, kinds=act.kinds)

    def _is_offered(self, act: Act, view: ConsoleView[Any]) -> bool:
        """Return whether the screen has this verb for the selected rows; if not, say where it is available."""
        bindings = cast("list[Binding]", type(view).BINDINGS)
        records = [action.record for binding in bindings if (action := action_of(binding.id)) and action.record]
        if not any(record.name == act.name for record in records):
            ways = " or ".join(f"`{COMMAND_GROUPS[verb.kind]} {verb.name} …`" for verb in act.verbs)
            self.say_error(f"nothing to {act.name.replace('-', ' ')} on this screen; write {ways}")
            return False
        if view.check_action("verb", (act.name,)) is False:
            self.say_error(f"{act.name.replace('-', ' ')} does not apply to the selected rows")
            return False
        return True

    def _act_on_named(self, act: Act, view: ConsoleView[Any]) -> None:
        if reason := self.why_no_writes():
            self.say_error(f"cannot {act.name.replace('-', ' ')}, {reason}")
            return
        verb = self._meant(act.verbs)
        if verb is None:
            ways = " or ".join(f"`{COMMAND_GROUPS[each.kind]} {act.name} …`" for each in act.verbs)
            self.say_error(f"{act.name} is ambiguous here: write {ways}")
            return
        intent = Intent(verb, options=act.options, reason=act.reason)
        if act.filter is not None:
            self._act_on_filter(intent, act.filter, view)
        elif verb.kind == "node" and len(act.targets) != 2:
            self.say_error(f"{act.name} needs a workflow and its node: `workflows {act.name} ID NODE`")
        elif verb.kind == "operation" and len(act.targets) != 1:
            self.say_error(f"{act.name} takes one operation at a time")
        else:
            self.run_worker(self._find_and_act(intent, act.targets, view), group="act", exclusive=True)

    def _act_on_filter(self, intent: Intent, text: str, view: ConsoleView[Any]) -> None:
        """Run a verb for all rows of a filter. Its times are fixed now, so that a later preview means the same rows."""
        from horsies_tui.command.grammar import BY_FILTER

        try:
            wanted = BY_FILTER[intent.verb.kind](text, present_on(cast("Console", self)))
        except FilterError as error:
            self.say_error(str(error.problems[0]))
        else:
            self._verbs.start(replace(intent, selection=Selection.of_filter(wanted.text)), view)

    def _meant(self, verbs: Sequence[Verb]) -> Verb | None:
        if len(verbs) == 1:
            return verbs[0]
        from horsies_tui.command.grammar import kind_of

        top = self.stage.top
        name = "" if top is None or top.id is None else top.id
        wanted = _KINDS.get(name) or kind_of(name)
        return next((verb for verb in verbs if verb.kind == wanted), None)

    async def _find_and_act(self, intent: Intent, targets: Sequence[str], view: ConsoleView[Any]) -> None:
        from horsies.operations.named_targets import selected

        given = {
            "filter_text": None,
            "ids": targets,
            "workers": targets,
            "queues": targets,
            "schedules": targets,
            "workflow_id": targets[0],
            "node": targets[-1],
            "operation": targets[0],
        }
        try:
            selection = await self.link.read(lambda conn: selected(conn, intent.verb.kind, given))
        except HorsiesError as error:
            self.say_error("; ".join([error.message, *(note.replace("\n", ", ") for note in error.notes)]))
        except LinkError as error:
            self.say_error(sentence(error))
        else:
            self._verbs.start(replace(intent, selection=selection), view)

    # Filters, exports, themes and programs.

    async def _recall(self, name: str) -> None:
        from horsies.query.problems import nearest
        from horsies_tui.command.grammar import SCREENS

        settings, top = self.options.settings, self.stage.name_shown
        screens = [screen for screen in (top, *SCREENS) if name in settings.filters_of(screen)]
        if screens:
            await self._show_screen(screens[0], settings.filters_of(screens[0])[name])
            return
        known = [one for screen in SCREENS for one in settings.filters_of(screen)]
        close = nearest(name, known)
        self.say_error(
            f"no saved filter `{name}`" + (f"; did you mean {close}?" if close else "; `:save NAME` saves one")
        )

    async def _save(self, name: str) -> None:
        from horsies_tui.saved_filters import save_filter

        view = self.stage.top
        if not isinstance(view, FilteredView) or not view.filter_text:
            self.say_error("no filter to save; / adds one")
            return
        screen, text = self.stage.name_shown, view.filter_text
        await self._change_filters(save_filter, screen, name, text)

    async def _forget(self, name: str) -> None:
        from horsies_tui.command.grammar import SCREENS
        from horsies_tui.saved_filters import forget_filter

        settings, top = self.options.settings, self.stage.name_shown
        screens = [screen for screen in (top, *SCREENS) if name in settings.filters_of(screen)]
        await self._change_filters(forget_filter, screens[0] if screens else "tasks", name)

    async def _change_filters(self, change: Callable[..., None], screen: str, name: str, *text: str) -> None:
        """Change the saved filters. The config file is read again, because another console may have changed it.

        Runs in a thread, because the home directory may be on a file system that hangs.
        """
        path = self.options.config.path

        def write() -> ConsoleSettings:
            change(path.expanduser(), screen, name, *text)
            return ConsoleSettings.of(read_config_file(path.expanduser()))

        try:
            written = await asyncio.to_thread(write)
        except HorsiesError as error:
            self.say_error("; ".join(filter(None, (error.message, error.help_text))))
            return
        settings = self.options.settings
        settings = replace(settings, filters=written.filters, screen_filters=written.screen_filters)
        self.options = replace(self.options, settings=settings)
        self.say(f"saved: `:filter {name}` shows it again, also from {path}" if text else f"removed {name} from {path}")

    def _export(self, form: Format, path: str) -> None:
        view = self.stage.top
        export = None if view is None else view.export()
        if export is None:
            self.say_error("nothing to export on this screen; open tasks, workflows or workers")
        elif why := why_not_here(self):
            self.say_error(f"{why}: the file would be on the server")
        else:
            self.export_line.start(cast("Console", self), export, form, path)

    def _use_theme(self, name: str) -> None:
        from horsies.query.problems import nearest

        if name in themes.THEMES:
            self.theme = name
            self.say(f'to keep it, set theme = "{name}" in the config file')
        else:
            close = nearest(name, themes.THEMES)
            self.say_error(f"no theme `{name}`" + (f"; did you mean {close}?" if close else ""))

    def _read_part(self, part: str, *, pager: bool) -> None:
        from horsies_tui.task.view import DetailView

        view = self.stage.top
        if isinstance(view, DetailView):
            view.read_outside(part, pager=pager)
        else:
            self.say_error("open a task first: enter in the task list, or `:go ID`")

    async def read_outside(self, name: str, text: str, *, pager: bool) -> None:
        """Open this text in the user's program and return when the program has ended."""
        if why := why_not_here(self):
            self.say_error(why)
            return
        try:
            await show(self, name, text, os.environ, pager=pager)
        except HorsiesError as error:
            self.say_error(error.message)

    # Completion.

    def _known(self) -> Known:
        from horsies_tui.command.completing import Known
        from horsies_tui.command.grammar import SCREENS

        top, settings = self.stage.top, self.options.settings
        name = self.stage.name_shown
        seen = {
            screen: view.filter_values
            for screen in SCREENS
            if isinstance(view := self.stage.made(screen), FilteredView)
        }
        bindings = [] if top is None else cast("list[Binding]", type(top).BINDINGS)
        records = [action.record for binding in bindings if (action := action_of(binding.id)) and action.record]
        # After a switch, the values are from another database.
        tasks = self._values[1].known if self._values is not None and self._values[0] is self.link else {}
        return Known(
            live=records,
            values={**seen, "tasks": {**seen.get("tasks", {}), **tasks}},
            filters={**settings.filters, **settings.filters_of(name)},
            themes=tuple(themes.THEMES),
        )

    def _read_values(self) -> None:
        """Read the names of tasks, queues, errors and workers, at most every 30 seconds."""
        from horsies_tui.feed.suggested_values import KnownValues

        if self._values is None or self._values[0] is not self.link:
            self.stop_reading_values()
            # As a callback, because the application may be closing when the values arrive.
            self._values = (self.link, KnownValues(self.link, lambda _seen: cast("None", self.call_later(self._learn))))
        self._values[1].refresh()

    def stop_reading_values(self) -> None:
        if self._values is not None:
            self._values[1].stop()

    def _learn(self) -> None:
        self.command_line.learn(self._known())


async def _places(conn: Connection, wanted: str) -> list[tuple[str, str]]:
    """Return kind and id of each task and workflow that this id, or part of an id, may mean."""
    from horsies.views import Ambiguous, find_task, find_workflow, worker_rows

    found: list[tuple[str, str]] = []
    for kind, find in (("task", find_task), ("workflow", find_workflow)):
        one = await find(conn, wanted)
        ids = one.ids if isinstance(one, Ambiguous) else (one,) if one else ()
        if len(wanted) == len(ids[0] if ids else "") and wanted in ids:
            return [(kind, wanted)]
        found += [(kind, each) for each in ids]
    for row in await worker_rows(conn, gone_within=None):
        if wanted in (row.id, row.name) or row.id.startswith(wanted) or row.name.startswith(wanted):
            found.append(("worker", row.id))
    return found
