"""The workers screen: which workers are alive and what they do; drain, resume, and recover tasks of lost workers."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

from textual import on

from horsies.operations.facts import WorkerState
from horsies.operations.selection import Selection
from horsies.operations.verb import TaskVerb, WorkerVerb
from horsies.operations.verbs import VERBS, verbs_for
from horsies.query import TaskFilter, Term, WorkerFilter
from horsies.query.values import Glob
from horsies_tui.actions import Scope, bindings
from horsies_tui.clipboard import copy
from horsies_tui.health.windows import neighbour
from horsies_tui.intents import Intent
from horsies_tui.widgets.menus import Item, PickOne
from horsies_tui.widgets.row_table import RowTable
from horsies_tui.workers.listing import WorkerList
from horsies_tui.workers.order import SORT_WORDS, WorkerSort

if TYPE_CHECKING:
    from collections.abc import Mapping

    from textual.binding import BindingType

    from horsies.views import WorkerRow
    from horsies_tui.actions import Action

_FOR_TASKS: Final = frozenset(verb.name for verb in verbs_for("task"))


def _fits(verb: WorkerVerb, row: WorkerRow) -> bool:
    return verb.fits(
        WorkerState(
            lives=row.lives,
            drains=row.draining_since is not None,
            holds_tasks=bool(row.in_flight),
            is_unacknowledged=row.loss is not None and row.loss.is_open,
        )
    )


_SORT_HELP: Final = {
    WorkerSort.TROUBLE: ("t", "lost with tasks, late, draining, alive"),
    WorkerSort.NAME: ("n", "by host and process"),
    WorkerSort.LOAD: ("l", "by the share of its processes that run a task"),
    WorkerSort.TASKS: ("k", "claimed and running ones"),
    WorkerSort.CPU: ("c", "of its own process"),
    WorkerSort.MEMORY: ("m", "its own and that of its children"),
    WorkerSort.YOUNGEST: ("y", "by its start"),
    WorkerSort.SILENT: ("s", "by its last sign of life"),
}
_SORTS: Final = tuple(Item(sort, SORT_WORDS[sort], *_SORT_HELP[sort]) for sort in WorkerSort)


class WorkersView(WorkerList):
    """The screen. Handles keys and messages, and determines the targets of verbs."""

    TITLE = "Workers"
    BINDINGS: ClassVar[list[BindingType]] = [*bindings(Scope.WORKERS, Scope.VERBS)]

    SORTS: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "state": (WorkerSort.TROUBLE,),
        "worker": (WorkerSort.NAME,),
        "load": (WorkerSort.LOAD,),
        "bar": (WorkerSort.LOAD,),
        "claimed": (WorkerSort.TASKS,),
        "cpu": (WorkerSort.CPU,),
        "memory": (WorkerSort.MEMORY,),
        "own": (WorkerSort.MEMORY,),
        "children": (WorkerSort.MEMORY,),
        "up": (WorkerSort.YOUNGEST,),
        "seen": (WorkerSort.SILENT,),
    }

    def intent(self, verb: str) -> Intent | None:
        """Return the intent of a verb: drain, resume and recover for workers, other verbs for the worker's tasks."""
        record = VERBS.get(("worker", verb))
        if isinstance(record, WorkerVerb):
            ids = [row.id for row in self._chosen(record)]
            if not ids:
                self.console.say(f"{verb}: select a worker (↑↓)")
                return None
            return Intent(record, Selection.of_ids(ids))
        tasks = self._held.chosen_ids
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

    def neighbour(self, step: int) -> str | None:
        return self._held.neighbour(step)

    def leave(self) -> bool:
        """Undo one step on `esc`: the marks, the open worker, the tasks, the hosts, the filter."""
        if any(table.marks for table in self._lists):
            self._clear_marks()
        elif self._opened is not None:
            self._open(None)
        elif self._held.has_focus:
            self._table.focus()
        elif self._grouped:
            self._group(on=False)
        else:
            return self._leave_filter(self._filter)
        return True

    def filter_by(self, text: str) -> None:
        self._open(None)
        self._group(on=False)
        super().filter_by(text)

    # Keys.

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Disable the keys of the list while a worker is open, and the workers' verbs among its tasks."""
        if action in ("filter", "sort", "group", "columns", "everyone", "other_part") and self._opened is not None:
            return False
        if action == "verb" and parameters[0] in _FOR_TASKS:
            return self._held.has_focus
        return super().check_action(action, parameters)

    def action_sort(self) -> None:
        self._open_menu(PickOne("Order", _SORTS, self._sort, self._glyphs), self._sort_by)

    def _sort_by(self, sort: str) -> None:
        self._sort = WorkerSort(sort)
        self._show_order()
        self._order.renew()
        self._table.action_first()
        self._show_all()

    def action_group(self) -> None:
        self._group(on=not self._grouped)

    def action_everyone(self) -> None:
        self._ask(everyone=not self._need.everyone)
        self.console.say(
            "workers that ended over an hour ago, too" if self._need.everyone else "only workers of the last hour"
        )

    def action_shorter(self) -> None:
        self._change_window(-1)

    def action_longer(self) -> None:
        self._change_window(1)

    def action_earlier(self) -> None:
        self._story.read(-1)

    def action_later(self) -> None:
        self._story.read(1)

    def action_other_part(self) -> None:
        """Move the focus from the list to the tasks of the worker under the cursor, and back."""
        if not self._grouped and self._table.has_focus:
            self._held.focus()
        else:
            self.take_focus()

    def action_tasks(self) -> None:
        """Show all present and past tasks of the worker."""
        row = self._looked_at
        if row is not None:
            self.console.show_tasks(TaskFilter((Term("worker", (Glob.literal(row.id),)),)).text)

    def action_copy(self) -> None:
        text = self._held.cursor_id if self._held.has_focus else self._looked_at and self._looked_at.id
        if text:
            copy(self, text, text)

    # Messages from widgets.

    @on(RowTable.CursorMoved, "#rows")
    def _look_at_another(self, message: RowTable.CursorMoved) -> None:
        message.stop()
        if message.by_hand:
            self._order.touch(self.console.link.clock.monotonic())
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
            self.console.say("these workers stored no snapshot: there is no filter for them")
            return
        others = tuple(term for term in self._filter.terms if term.key != "host" or term.negated)
        self._group(on=False)
        self._use(WorkerFilter((*others, Term("host", (Glob.literal(message.row_id),)))))

    # Consequences of keys and messages.

    def _chosen(self, verb: WorkerVerb) -> list[WorkerRow]:
        """Return the open worker, the marked ones, or that under the cursor; of hosts, those that the verb fits."""
        if self._opened is not None:
            return [self._opened]
        if not self._grouped:
            return [*self._table.chosen]
        workers = [worker for host in self._hosts.chosen for worker in host.workers]
        return [worker for worker in workers if _fits(verb, worker)] or workers

    def _use(self, wanted: WorkerFilter) -> None:
        super()._use(wanted)
        self._filter = wanted
        self._order.renew()
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
        self._window_chosen = True
        self._ask(window=neighbour(self._need.window, step))
        self._show_one()
