"""The steps of an operator action: intent, arguments or value to edit, preview sheet, outcome, undo."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, cast

from horsies.operations.selection import Selection
from horsies.operations.verb import TaskVerb
from horsies.operations.verbs import VERBS
from horsies.views import Ambiguous, TaskDetail, task_detail
from horsies_tui.actions import key_for
from horsies_tui.intents import ConsoleOperation, FinishedOperation, Intent
from horsies_tui.look.glyphs import glyphs
from horsies_tui.shell.arguments_sheet import ArgumentsSheet
from horsies_tui.shell.outcome import Next, RowsSheet, rows_of_done
from horsies_tui.shell.preview_sheet import PreviewSheet, Where
from horsies_tui.shell.value_sheet import ValueSheet
from horsies_tui.widgets.prompt import Prompt

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from textual.app import App

    from horsies.domain.states import TargetKind
    from horsies.operations.edited import Arguments
    from horsies.operations.verb import NewValue, Options
    from horsies.store.connect import Connection
    from horsies_tui.feed.link import DatabaseLink
    from horsies_tui.view import Console, ConsoleView

UNDO: Final = VERBS["operation", "undo"]
_MAX_EDITED: Final = 100_000
"""Most characters of arguments that an editor opens without a noticeable pause."""


class OperationFlow:
    """Runs operations, one flow per application. Keeps the last operation, for its undo and the list of its rows."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._glyphs = glyphs(ascii_only=console.options.ascii)
        self._last: FinishedOperation | None = None
        self._last_link: DatabaseLink | None = None

    @property
    def last(self) -> FinishedOperation | None:
        """The last operation on the current database."""
        return self._last if self._last_link is self._console.link else None

    def begin(
        self,
        verb: str,
        view: ConsoleView[Any],
        *,
        options: Mapping[str, Any] | None = None,
        reason: str = "",
        kinds: Sequence[TargetKind] = (),
    ) -> None:
        """Run the action of a key in this view: a verb of the engine, `undo`, or `outcome`.

        The command line adds options, a reason, and the `kinds` of targets that its command accepts.
        """
        if verb == "outcome":
            self._show_last(view)
        elif why := self._console.why_no_writes():
            self._console.say_error(f"cannot {verb.replace('-', ' ')}, {why}")
        elif intent := self._undoing() if verb == UNDO.name and not view.CHOOSES_OPERATIONS else view.intent(verb):
            if kinds and intent.kind not in kinds and intent.verb.kind not in kinds:
                self._console.say_error(f"the selected row is a {intent.kind}, but the command is for {kinds[0]}s")
                return
            self._open(replace(intent, options={**intent.options, **(options or {})}, reason=reason), view)

    def start(self, intent: Intent, view: ConsoleView[Any]) -> None:
        """Start a verb for these targets; the caller has checked that the session may write."""
        self._open(intent, view)

    def end_blocker(self, view: ConsoleView[Any] | None) -> None:
        """Cancel the statement of the session that blocks this one, or end that session if it runs none."""
        blockers = self._console.link.status.blockers
        if view is None or not blockers:
            self._console.say("no other session blocks this one")
        elif why := self._console.why_no_writes():
            self._console.say_error(f"cannot end the session, {why}")
        else:
            first = blockers[0]
            self.start(Intent(VERBS["session", first.way_out], Selection.of_ids([str(first.pid)])), view)

    def _undoing(self) -> Intent | None:
        last = self.last
        if last is None or not last.can_be_undone:
            self._console.say("nothing to undo; horsies audit undo reverts earlier operations")
            return None
        return Intent(UNDO, Selection.of_ids([str(last.outcome.operation_id)]), undoes=last.intent.kind)

    def _open(self, intent: Intent, view: ConsoleView[Any]) -> None:
        selection = intent.selection
        if intent.options:
            self._preview(intent, view)
        elif isinstance(intent.verb, TaskVerb) and intent.verb.gives is not None:
            self._ask(intent, intent.verb.gives, view)
        elif intent.asks_for("value"):
            self._ask_for_value(intent, view)
        elif intent.asks_for("args", "kwargs") and selection.filter is None and len(selection.ids) == 1:
            self._edit(intent, selection.ids[0], view)
        else:
            self._preview(intent, view)

    def _edit(self, intent: Intent, task_id: str, view: ConsoleView[Any]) -> None:
        link = self._console.link

        async def read(conn: Connection) -> TaskDetail | None:
            found = await task_detail(conn, task_id, most_characters=_MAX_EDITED)
            return None if isinstance(found, Ambiguous) else found

        def edited(arguments: Arguments | None) -> None:
            if arguments is not None:
                options = {"args": arguments.args, "kwargs": arguments.kwargs}
                self._preview(replace(intent, options=options), view)

        hidden = self._console.options.config.mask_arguments
        self._console.push_sheet(ArgumentsSheet(task_id, lambda: link.read(read), self._glyphs, hidden=hidden), edited)

    def _ask(self, intent: Intent, value: NewValue, view: ConsoleView[Any]) -> None:
        """Ask for a value. It is checked as in the preview; the line below the field shows its meaning."""
        clock = self._console.link.clock

        def read(text: str) -> Options:
            options = intent.verb.checked(value.read(text))
            value.of(options, clock.now())
            return options

        def describe(options: Options) -> str:
            return value.became(value.of(options, clock.now()))

        def written(options: Options | None) -> None:
            if options is not None:
                self._preview(replace(intent, options=options), view)

        link = self._console.link

        async def present() -> str:
            from horsies.operations.selection import present_value

            return await link.read(lambda conn: present_value(conn, intent.selection, value.present)) or ""

        sheet = Prompt(value.title, value.example, read, describe, self._glyphs, present=present)
        self._console.push_sheet(sheet, written)

    def _ask_for_value(self, intent: Intent, view: ConsoleView[Any]) -> None:
        def written(value: str | None) -> None:
            if value is not None:
                self._preview(replace(intent, options={"value": value}), view)

        self._console.push_sheet(ValueSheet("The result of this node", "null", self._glyphs), written)

    def _preview(self, intent: Intent, view: ConsoleView[Any]) -> None:
        link = self._console.link
        status = link.status
        label = status.context_name or status.database_label
        where = Where(label, label if status.production else None, link.clock)

        operation = ConsoleOperation(link, intent, self._console.options.types)

        def closed(done: FinishedOperation | None) -> None:
            cast("App[object]", self._console).run_worker(operation.release(), group="release")
            if done is not None:
                self._report(done, link, view)

        hidden = self._console.options.config.mask_arguments
        self._console.push_sheet(PreviewSheet(operation, where, self._glyphs, hidden=hidden), closed)

    def _report(self, done: FinishedOperation, link: DatabaseLink, view: ConsoleView[Any]) -> None:
        self._last, self._last_link = done, link
        self._console.recovery.refresh()
        view.acted()
        if done.went_well:
            self._offer(done)
        else:
            self._show(done, view)

    def _offer(self, done: FinishedOperation) -> None:
        """Show the outcome with the keys that list its rows and undo it, for a minute."""
        rows = f"{self._key('verbs.outcome')} rows"
        if not done.can_be_undone:
            self._console.say(f"{done.line()}   ({rows})")
            return
        undo = f"{self._key('verbs.undo')} undo"
        self._console.say(f"{done.line()}   ({rows}, {undo})", offer=f"{done.line()}: {undo}")

    def _show_last(self, view: ConsoleView[Any]) -> None:
        if self.last is None:
            self._console.say("no operation in this session yet")
        else:
            self._show(self.last, view)

    def _show(self, done: FinishedOperation, view: ConsoleView[Any]) -> None:
        def closed(chosen: Next | None) -> None:
            if chosen is None:
                if undo:
                    self._offer(done)
                return
            if chosen.task_id is not None:
                self._console.open_task(chosen.task_id)
            if chosen.workflow_id is not None:
                self._console.show_workflow(chosen.workflow_id)
            if chosen.undo:
                self.begin(UNDO.name, view)

        now = self._console.link.clock.now()
        title = f"{done.intent.verb.title}: {done.line()}"
        undo = done.can_be_undone and done is self.last
        self._console.push_sheet(RowsSheet(title, rows_of_done(done), now, self._glyphs, undo=undo), closed)

    def _key(self, action_id: str) -> str:
        return key_for(action_id, cast("App[object]", self._console).screen, self._glyphs)
