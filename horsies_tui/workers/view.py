"""The workers screen: which workers are alive and what they do; drain, resume, and recover tasks of lost workers."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final, TypeVar

from textual import on

from horsies.operations.selection import Selection
from horsies.operations.verb import TaskVerb, WorkerState, WorkerVerb
from horsies.operations.verbs import VERBS, verbs_for
from horsies.query import FilterError, TaskFilter, Term, WorkerFilter, parse_workers
from horsies.query.values import Glob
from horsies_tui.actions import Scope, bindings
from horsies_tui.clipboard import copy
from horsies_tui.health.windows import neighbour
from horsies_tui.intents import Intent
from horsies_tui.look.units import number
from horsies_tui.widgets.filter_bar import FilterBar
from horsies_tui.widgets.row_table import RowTable
from horsies_tui.workers.columns import WORKER_COLUMNS
from horsies_tui.workers.listing import WorkerList
from horsies_tui.workers.menus import column_menu, sort_menu
from horsies_tui.workers.order import WorkerSort

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual.binding import BindingType

    from horsies.views import WorkerRow
    from horsies_tui.actions import Action
    from horsies_tui.widgets.sheet import Sheet

ResultT = TypeVar("ResultT")

_FOR_TASKS: Final = frozenset(verb.name for verb in verbs_for("task"))


def _fits(verb: WorkerVerb, row: WorkerRow) -> bool:
    return verb.fits(
        WorkerState(
            lives=row.lives,
            drains=row.draining_since is not None,
            holds_tasks=bool(row.held),
            is_unacknowledged=row.loss is not None and row.loss.is_open,
        )
    )


class WorkersView(WorkerList):
    """Translates keys and messages into requests, and determines the targets of a verb."""

    TITLE = "Workers"
    BINDINGS: ClassVar[list[BindingType]] = [*bindings(Scope.WORKERS, Scope.VERBS)]

    def intent(self, verb: str) -> Intent | None:
        """Drain, resume and recover act on workers; other verbs on the tasks that the worker holds."""
        record = VERBS.get(("worker", verb))
        if isinstance(record, WorkerVerb):
            ids = [row.id for row in self._chosen(record)]
            if not ids:
                self.console.say(f"{verb}: no worker is chosen; an arrow key chooses one")
                return None
            return Intent(record, Selection.of_ids(ids))
        tasks = sorted(self._held.marks) or [task for task in (self._held.cursor_id,) if task is not None]
        if not tasks:
            self.console.say(f"{verb}: this worker holds no task")
            return None
        return Intent(VERBS["task", verb], Selection.of_ids(tasks))

    def fits(self, action: Action) -> bool:
        verb = action.record
        if isinstance(verb, WorkerVerb):
            return any(_fits(verb, row) for row in self._chosen(verb))
        if isinstance(verb, TaskVerb):
            row = self._held.cursor_row
            return row is not None and verb.fits(row.status, row.error_code)
        return action.scope is not Scope.TABLE or bool(self._table.rows or self._hosts.rows)

    def acted(self) -> None:
        for table in (self._table, self._hosts, self._held):
            table.action_clear_marks()
        self.refresh_now()

    def neighbour(self, step: int) -> str | None:
        index = self._held.cursor_index + step
        if not 0 <= index < len(self._held.rows):
            return None
        self._held.move_to(index)
        return self._held.cursor_id

    def leave(self) -> bool:
        """`esc` undoes one step at a time: the marks, the open worker, the tasks, the hosts, the filter."""
        if any(table.marks for table in (self._table, self._hosts, self._held)):
            for table in (self._table, self._hosts, self._held):
                table.action_clear_marks()
        elif self._opened is not None:
            self._open(None)
        elif self._held.has_focus:
            self._table.focus()
        elif self._grouped:
            self._group(on=False)
        elif self._filter.terms:
            self._use(WorkerFilter())
        else:
            return False
        return True

    def filter_by(self, text: str) -> None:
        """Show the matching workers; an invalid filter is opened for editing at the error."""
        self._open(None)
        self._group(on=False)
        try:
            self._use(parse_workers(text))
        except FilterError:
            self._filter_bar.edit(text)
            self._filter_bar.action_apply()

    # Keys.

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """While a filter is typed its keys are letters; an open worker has no list keys; tasks have their own verbs."""
        if action in ("filter", "sort", "group", "columns", "everyone", "other_part"):
            return self._opened is None and not (action == "filter" and self._filter_bar.editing)
        return action != "verb" or parameters[0] not in _FOR_TASKS or self._held.has_focus

    def action_filter(self) -> None:
        self._filter_bar.edit()

    def action_sort(self) -> None:
        def choose(sort: str) -> None:
            self._sort, self._sorted_at = WorkerSort(sort), None
            self._table.action_first()
            self._show_all()

        self._open_menu(sort_menu(self._sort, self._glyphs), choose)

    def action_group(self) -> None:
        self._group(on=not self._grouped)

    def action_columns(self) -> None:
        width, hidden = self._table.size.width, self._table.columns.hidden

        def choose(shown: frozenset[str]) -> None:
            offered = frozenset(WORKER_COLUMNS.keys_at(width))
            self._table.columns = WORKER_COLUMNS.without((hidden - offered) | (offered - shown))

        self._open_menu(column_menu(width, hidden, self._glyphs), choose)

    def action_everyone(self) -> None:
        self._ask(everyone=not self._need.everyone)
        self.console.say(
            "workers that have been gone for longer than an hour, too"
            if self._need.everyone
            else "only workers of the last hour"
        )

    def action_shorter(self) -> None:
        self._change_window(-1)

    def action_longer(self) -> None:
        self._change_window(1)

    def action_other_part(self) -> None:
        """Move the focus from the list to the tasks of the worker under the cursor, and back."""
        if not self._grouped and self._table.has_focus:
            self._held.focus()
        else:
            self.take_focus()

    def action_tasks(self) -> None:
        """Show all tasks that it holds or has held."""
        row = self._looked_at
        if row is not None:
            self.console.show_tasks(TaskFilter((Term("worker", (Glob.literal(row.id),)),)).text)

    def action_copy(self) -> None:
        text = self._held.cursor_id if self._held.has_focus else self._looked_at and self._looked_at.id
        if text:
            copy(self, text, text)

    # Messages from widgets.

    @on(FilterBar.Closed)
    def _filter_closed(self, message: FilterBar.Closed) -> None:
        self.take_focus()
        if isinstance(message.filter, WorkerFilter):
            self._use(message.filter)

    @on(RowTable.CursorMoved, "#rows")
    def _look_at_another(self, message: RowTable.CursorMoved) -> None:
        message.stop()
        if message.by_hand:
            self._touched_at = self.console.link.clock.monotonic()
        if self._opened is None:
            self._look_at(self._table.cursor_row)

    @on(RowTable.Opened, "#rows")
    def _open_row(self, message: RowTable.Opened) -> None:
        message.stop()
        self._open(self._table.cursor_row)

    @on(RowTable.Opened, "#held")
    def _open_task(self, message: RowTable.Opened) -> None:
        message.stop()
        self.console.open_task(message.row_id)

    @on(RowTable.Opened, "#hosts")
    def _open_host(self, message: RowTable.Opened) -> None:
        """Show only the workers of this host."""
        message.stop()
        if not message.row_id:
            self.console.say("these have told nothing of themselves: there is no filter for them")
            return
        others = tuple(term for term in self._filter.terms if term.key != "host" or term.negated)
        self._group(on=False)
        self._use(WorkerFilter((*others, Term("host", (Glob.literal(message.row_id),)))))

    @on(RowTable.MarksChanged)
    def _count_marks(self, message: RowTable.MarksChanged) -> None:
        message.stop()
        self.console.note(f"{self._glyphs.mark} {number(len(message.marks))} marked" if message.marks else "")

    # Consequences of keys and messages.

    def _chosen(self, verb: WorkerVerb) -> list[WorkerRow]:
        """The open worker, the marked ones, or the one under the cursor; for hosts, those that the verb applies to."""
        if self._opened is not None:
            return [self._opened]
        if not self._grouped:
            row = self._table.cursor_row
            marked = [row for row in self._table.rows if row.id in self._table.marks]
            return marked or ([] if row is None else [row])
        host = self._hosts.cursor_row
        hosts = [row for row in self._hosts.rows if row.id in self._hosts.marks] or ([] if host is None else [host])
        workers = [worker for row in hosts for worker in row.workers]
        return [worker for worker in workers if _fits(verb, worker)] or workers

    def _use(self, understood: WorkerFilter) -> None:
        """Use another filter. Marks are cleared: verbs must not act on rows that are no longer visible."""
        self._table.action_clear_marks()
        self._hosts.action_clear_marks()
        self._filter, self._sorted_at = understood, None
        self._filter_bar.show(understood.text)
        self._show_all()
        self._table.choose_one()

    def _group(self, *, on: bool) -> None:
        if on is self._grouped:
            return
        self._table.action_clear_marks()
        self._hosts.action_clear_marks()
        self._grouped = on
        self.set_class(on, "-grouped")
        self._show_all()
        self.take_focus()

    def _open(self, row: WorkerRow | None) -> None:
        self._opened = row
        self.set_class(row is not None, "-opened")
        self._show_all()
        self.take_focus()

    def _change_window(self, step: int) -> None:
        self._ask(window=neighbour(self._need.window, step))
        self._show_one()

    def _open_menu(self, menu: Sheet[ResultT], take: Callable[[ResultT], None]) -> None:
        self.console.push_sheet(menu, lambda result: None if result is None else take(result))
