"""The activity screen: a list of what happened, the story of the entry under the cursor, and undo of an operation."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Final, cast

from textual import on
from textual.containers import VerticalScroll

from horsies.operations.selection import Selection
from horsies.operations.verbs import VERBS
from horsies.query import ACTIVITY, ActivityFilter, Term, WorkerFilter, parse_activity
from horsies.query.other_keys import CHANGE, OPERATION
from horsies.query.values import Choice, Glob
from horsies_tui.actions import Scope, bindings, bindings_of
from horsies_tui.activity.entries import ENTRY_COLUMNS, TARGET_COLUMNS, Entry, TargetRow, entries
from horsies_tui.activity.feed import ActivityFeed, ActivitySnapshot
from horsies_tui.activity.sentences import (
    NOTHING_YET,
    can_be_undone,
    change_story,
    command_of,
    rows_of_change,
    story,
    summary,
    tasks_of,
)
from horsies_tui.clipboard import copy
from horsies_tui.feed.status import not_connected
from horsies_tui.intents import Fact, Intent
from horsies_tui.look.damage import drawn
from horsies_tui.look.glyphs import glyphs
from horsies_tui.look.tones import Tone
from horsies_tui.look.units import zone_of
from horsies_tui.widgets.filter_bar import FilterBar
from horsies_tui.widgets.plain import Facts, LineCell
from horsies_tui.widgets.row_table import RowTable
from horsies_tui.widgets.rows_view import FilteredView, present_on

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import tzinfo

    from textual.app import ComposeResult
    from textual.binding import BindingType
    from textual.widget import Widget

    from horsies.domain.states import TargetKind
    from horsies.views import OperationRow
    from horsies_tui.actions import Action
    from horsies_tui.activity.feed import OneOperation
    from horsies_tui.feed.link import DatabaseLink

_LABEL_WIDTH: Final = 10
_EVENING, _MORNING = 18, 8
PLACEHOLDER: Final = f"filter, for example {ACTIVITY.example}"
_ROW_KEYS: Final = ("open", "up", "down", "page_up", "page_down", "first", "last")


class EntryTable(RowTable[Entry], inherit_bindings=False):
    """The list of entries, without marks: an undo takes back one operation."""

    BINDINGS: ClassVar[list[BindingType]] = [*bindings_of(*(f"table.{name}" for name in _ROW_KEYS))]


class TargetTable(RowTable[TargetRow], inherit_bindings=False):
    BINDINGS: ClassVar[list[BindingType]] = [*bindings_of(*(f"table.{name}" for name in _ROW_KEYS))]


class ActivityView(FilteredView[ActivitySnapshot]):
    """`-opened`: one operation with its targets, in place of the list."""

    TITLE = "Activity"
    CHOOSES_OPERATIONS = True
    BINDINGS: ClassVar[list[BindingType]] = [*bindings(Scope.ACTIVITY), *bindings_of("verbs.outcome")]

    DEFAULT_CSS = """
    ActivityView {
        #summary { width: 1fr; padding: 0 1; color: $text-muted; }
        #story-title { width: 1fr; padding: 0 1; color: $text-muted; }
        #story-scroll { height: 8; padding: 0 1; }
        #story { min-height: 8; }
        #targets { display: none; }
        &.-opened > #filter, &.-opened > #summary, &.-opened > #entries { display: none; }
        &.-opened > #targets { display: block; }
        &.-old RowTable { text-style: dim; }
    }
    """

    _table: RowTable[Entry]

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - textual's name
        super().__init__(id=id)
        self._filter = ActivityFilter()
        self._snapshot = ActivitySnapshot()
        self._opened: OperationRow | None = None
        """The opened operation as it was read last; the list may no longer have it."""
        self._land = True
        """Move the cursor to the newest row when all that was requested has arrived."""

    def compose(self) -> ComposeResult:
        self._glyphs = glyphs(ascii_only=self.console.options.ascii)
        self._filter_bar = FilterBar(read=parse_activity, placeholder=PLACEHOLDER, id="filter")
        self._filter_bar.named = lambda: self.console.options.settings.filters_of("activity")
        self._table = EntryTable(ENTRY_COLUMNS, glyphs=self._glyphs, id="entries")
        self._targets = TargetTable(TARGET_COLUMNS, glyphs=self._glyphs, id="targets")
        yield self._filter_bar
        yield LineCell(id="summary")
        yield self._table
        yield LineCell(id="story-title")
        with VerticalScroll(id="story-scroll", can_focus=False):
            yield Facts(self._glyphs, label_width=_LABEL_WIDTH, id="story")
        yield self._targets

    # Called by the base class.

    def create_feed(self, link: DatabaseLink, publish: Callable[[ActivitySnapshot], None]) -> ActivityFeed:
        feed = ActivityFeed(link, publish)
        feed.ask(self._filter)
        return feed

    def draw(self, snapshot: ActivitySnapshot) -> None:
        self._snapshot = snapshot
        operations = () if snapshot.operations is None else snapshot.operations.rows
        self._filter_bar.learn(
            {
                "by": sorted({name for row in operations for name in (row.os_user, row.who) if name}),
                "verb": sorted({verb for row in operations for verb in row.verbs}),
            }
        )
        if self._opened is not None:
            opened = self._opened.operation_id
            self._opened = next((row for row in operations if row.operation_id == opened), self._opened)
        self._show()

    @property
    def _focused(self) -> Widget:
        return self._table if self._opened is None else self._targets

    def intent(self, verb: str) -> Intent | None:
        """Undo takes back the operation under the cursor, also that of another operator or of the command line."""
        operation = self._operation
        if operation is None:
            self.console.say(f"{verb}: select an operation (↑↓), a line with a name in WHO")
            return None
        kind = cast("TargetKind", operation.kinds[0])
        return Intent(VERBS["operation", verb], Selection.of_ids([str(operation.operation_id)]), undoes=kind)

    def fits(self, action: Action) -> bool:
        if action.record is not None:
            return self._operation is not None and can_be_undone(self._operation)
        return action.scope is not Scope.TABLE or bool(self._table.rows)

    def neighbour(self, step: int) -> str | None:
        """The task above or below in the targets of the operation."""
        row_id = self._targets.neighbour(step) if self._opened is not None else None
        row = None if row_id is None else self._targets.cursor_row
        return row.action.target_id if row is not None and row.action.target_kind == "task" else None

    def leave(self) -> bool:
        if self._opened is not None:
            self._open(None)
            return True
        return self._leave_filter(self._filter)

    def refresh_now(self) -> None:
        self._activity_feed.refresh()

    def times_changed(self) -> None:
        self._show()

    def frozen_changed(self) -> None:
        self._show()

    # Keys.

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """An open operation has no list keys."""
        if action in ("filter", "columns", "kinds", "night") and self._opened is not None:
            return False
        return super().check_action(action, parameters)

    def action_kinds(self) -> None:
        """Operations only, changes only, both."""
        kinds = {choice.word for choice in self._filter.pick("kind", Choice)}
        others = tuple(term for term in self._filter.terms if term.key != "kind")
        word = CHANGE if kinds == {OPERATION} else None if kinds == {CHANGE} else OPERATION
        self._use(ActivityFilter(others if word is None else (*others, Term("kind", (Choice(word),)))))

    def action_night(self) -> None:
        """Show yesterday evening until this morning, in the zone in which times are shown."""
        zone = present_on(self.console)
        here = zone.now.astimezone(zone.zone)
        morning = here.replace(hour=_MORNING, minute=0, second=0, microsecond=0)
        evening = (morning - timedelta(days=1)).replace(hour=_EVENING)
        others = tuple(term for term in self._filter.terms if term.key not in ("since", "until"))
        times = [Term("since", (zone.moment(evening),))]
        times += [Term("until", (zone.moment(morning),))] if morning < here else []
        self._use(ActivityFilter((*others, *times)))

    def action_tasks(self) -> None:
        """The task list with the tasks of the operation, or with what the change has counted."""
        entry, one = self._table.cursor_row, self._one
        if self._operation is not None:
            wanted = None if one is None else tasks_of(one.rows)
            if wanted is None:
                self.console.say("this operation changed no task")
            else:
                self.console.show_tasks(wanted)
        elif entry is not None and entry.change is not None and entry.change.kind == "task":
            self.console.show_tasks(rows_of_change(entry.change))
        else:
            self.console.say("this line has no tasks")

    def action_copy(self) -> None:
        """The command of an operation, the id of what a change is about."""
        entry = self._table.cursor_row
        if self._operation is not None:
            command = command_of(self._operation, self._one)
            copy(self, command, command)
        elif entry is not None and entry.change is not None and entry.change.target_id:
            copy(self, entry.change.target_id, entry.change.target_id)

    # Messages from widgets.

    @on(RowTable.CursorMoved)
    def _show_another(self, message: RowTable.CursorMoved) -> None:
        message.stop()
        self._land = self._land and not message.by_hand
        self._show_story()

    @on(RowTable.Opened, "#entries")
    def _open_entry(self, message: RowTable.Opened) -> None:
        message.stop()
        entry = self._table.cursor_row
        if entry is None:
            return
        if entry.operation is not None:
            self._open(entry.operation)
        elif (change := entry.change) is not None:
            if change.kind == "worker":
                self._show_worker(change.target_id)
            elif change.kind == "workflow":
                self.console.show_workflow(change.target_id)
            elif change.kind != "task":
                self.console.say(f"a {change.kind} has no screen")
            elif change.count == 1:
                self.console.open_task(change.target_id)
            else:
                self.console.show_tasks(rows_of_change(change))

    @on(RowTable.Opened, "#targets")
    def _open_target(self, message: RowTable.Opened) -> None:
        message.stop()
        row = self._targets.cursor_row
        if row is None:
            return
        kind, target_id = row.action.target_kind, row.action.target_id
        if kind == "task":
            self.console.open_task(target_id)
        elif kind == "workflow":
            self.console.show_workflow(target_id)
        elif kind == "node":
            workflow_id, _, index = target_id.rpartition(":")
            self.console.show_workflow(workflow_id or target_id, int(index) if index.isdecimal() else None)
        elif kind == "worker":
            self._show_worker(target_id)
        else:
            self.console.say(f"a {kind} has no screen")

    def _show_worker(self, worker_id: str) -> None:
        self.console.show_workers(WorkerFilter((Term("id", (Glob.literal(worker_id),)),)).text)

    # Consequences of keys and messages.

    def _use(self, wanted: Any) -> None:
        super()._use(wanted)
        self._filter = wanted
        self._land = True
        self._activity_feed.ask(wanted)

    def filter_by(self, text: str) -> None:
        self._open(None)
        super().filter_by(text)

    def _open(self, operation: OperationRow | None) -> None:
        self._opened = operation
        self.set_class(operation is not None, "-opened")
        self._show()
        if operation is not None:
            self._targets.move_to(0)
        self.take_focus()
        self.refresh_bindings()

    # Drawing.

    @property
    def _activity_feed(self) -> ActivityFeed:
        return cast("ActivityFeed", self.feed)

    @property
    def _zone(self) -> tzinfo | None:
        return zone_of(utc=self.console.utc)

    @property
    def _operation(self) -> OperationRow | None:
        """The opened operation, or the one under the cursor."""
        entry = self._table.cursor_row
        return self._opened or (None if entry is None else entry.operation)

    @property
    def _one(self) -> OneOperation | None:
        """The targets of that operation, once they are read."""
        one, operation = self._snapshot.one, self._operation
        return one if one is not None and operation is not None and one.id == operation.operation_id else None

    def _show(self) -> None:
        snapshot, now = self._snapshot, self.now
        operations = () if snapshot.operations is None else snapshot.operations.rows
        changes = () if snapshot.changes is None else snapshot.changes.rows
        rows = entries(operations, changes, now, self._zone)
        known = {entry.id: entry for entry in self._table.rows}
        rows = tuple(known[row.id] if known.get(row.id) == row else row for row in rows)
        self._table.show(rows, now=now, stick=self._table.cursor_index == 0, empty=self._empty())
        if self._land and not snapshot.loading:
            self._land = False
            self._table.move_to(0)
        self.set_class(snapshot.error is not None, "-old")
        words = summary(snapshot, now, self._zone, frozen=self.frozen_at is not None)
        self.query_one("#summary", LineCell).put(self._glyphs.text(words))
        self._show_story()

    def _show_story(self) -> None:
        entry, operation, now = self._table.cursor_row, self._operation, self.now
        self._activity_feed.select(None if operation is None else operation.operation_id)
        change = None if entry is None else entry.change
        facts: list[Fact] = []
        if operation is not None:
            facts = _facts(lambda: story(operation, self._one, now, self._zone))
        elif change is not None:
            facts = _facts(lambda: change_story(change, now, self._zone))
        self.query_one("#story", Facts).show(facts)
        title = self._title("operation" if operation else "change" if facts else "")
        self.query_one("#story-title", LineCell).put(title)
        one = self._one
        if self._opened is not None:
            rows = () if one is None else tuple(TargetRow(str(row.id), row) for row in one.rows)
            self._targets.show(rows, now=now, empty="Reading its targets…")

    def _title(self, title: str) -> str:
        one, rule = self._one, self._glyphs.rule
        if self._opened is not None and one is not None and one.more:
            title += f", the last {len(one.rows)} targets"
        return f"{rule * 2} {title} {rule * max(self.size.width - len(title) - 6, 0)}" if title else ""

    def _empty(self) -> str:
        snapshot, link = self._snapshot, self.console.link
        if snapshot.read_at is None:
            if not link.status.is_up:
                return not_connected(link.status, link.clock.now())
            return f"Nothing to show:\n{snapshot.error}" if snapshot.error else "Reading…"
        if snapshot.loading:
            return "Reading…"
        return "Nothing that happened matches. esc clears the filter." if self._filter.terms else NOTHING_YET

    def tick(self) -> None:
        if self.shown and (self.console.link.status.is_up or self._snapshot.read_at is None):
            if self._snapshot.read_at is None:
                self._show()
            self._table.tick(self.now)


def _facts(make: Callable[[], list[Fact]]) -> list[Fact]:
    return drawn("the story", make, lambda words: [Fact("", words, Tone.BAD)], "operation")
