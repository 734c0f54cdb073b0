"""The recovery screen: findings, the worst first, each with what will happen and what an operator can do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from textual import on
from textual.containers import Container, Vertical, VerticalScroll

from horsies.operations.selection import Selection
from horsies.operations.verbs import VERBS
from horsies_tui.actions import ACTIONS, Scope, bindings, key_for
from horsies_tui.health.figure_filters import filter_of, schedules_of
from horsies_tui.intents import Fact, Intent
from horsies_tui.look.damage import drawn
from horsies_tui.look.glyphs import glyphs
from horsies_tui.look.tones import Tone
from horsies_tui.recovery.report_rows import COLUMNS, FindingRow, headline, nothing_wrong, rows_of, why_of
from horsies_tui.story.beside import StoryPane, Subject, WithStory
from horsies_tui.widgets.plain import Facts, LineCell
from horsies_tui.widgets.row_table import RowTable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.app import ComposeResult

    from horsies.findings import Finding, Remedy
    from horsies_tui.actions import Action
    from horsies_tui.feed.report import RecoverySnapshot
    from horsies_tui.story.companion import Companion

_LABEL_WIDTH: Final = 10
_KEY_OF_VERB: Final = {
    **{
        action.record.name: action.id
        for action in ACTIONS
        if action.scope in (Scope.VERBS, Scope.RECOVERY) and action.record and action.record.kind != "operation"
    },
    "retry": "verbs.requeue",
    "run-now": "verbs.requeue",
}
_REQUEUE_OF: Final = {"workflow": "retry", "schedule": "run-now"}
"""The name of this verb for other targets, under the same key as on their own screens."""


class RecoveryView(WithStory["RecoverySnapshot"]):
    """Draws the application's RecoveryFeed; verbs act on the marked findings, else on the one under the cursor."""

    _table: RowTable[FindingRow]

    BINDINGS = bindings(Scope.RECOVERY, Scope.VERBS)

    DEFAULT_CSS = """
    RecoveryView {
        #summary { width: 1fr; padding: 0 1; text-style: bold; }
        #why-title { width: 1fr; padding: 0 1; color: $text-muted; }
        #why-scroll { height: 9; padding: 0 1; }
        #why { min-height: 9; }
        #why-and-story { height: auto; }
        &.-story-below #why-and-story, &.-story-beside #why-and-story { height: 1fr; }
        &.-story-beside #why-and-story { border-left: solid $border; }
        &.-story-beside StoryPane { border-left: none; }
        #summary.-error { color: $text-error; }
        &.-old RowTable { text-style: dim; }
    }
    """

    def compose(self) -> ComposeResult:
        self._glyphs = glyphs(ascii_only=self.console.options.ascii)
        self._snapshot: RecoverySnapshot | None = None
        yield LineCell(id="summary")
        self._table = RowTable(COLUMNS, glyphs=self._glyphs, id="findings")
        self._pane = StoryPane({"task": _task, "workflow": _workflow}, id="pane")
        with Container(id="list-and-story"):
            yield self._table
            with Vertical(id="why-and-story"):
                yield LineCell(id="why-title")
                with VerticalScroll(id="why-scroll", can_focus=False):
                    yield Facts(self._glyphs, label_width=_LABEL_WIDTH, id="why")
                yield self._pane

    def draw(self, snapshot: RecoverySnapshot) -> None:
        self._snapshot = snapshot
        self.set_class(snapshot.error is not None, "-old")
        if snapshot.report is None:
            self._summarise()
            return
        rows = rows_of(snapshot.report, self._key)
        now = self.now
        self._table.show(rows, now=now, empty=nothing_wrong(snapshot.report))
        self._table.marks &= {row.id for row in rows}
        self._summarise()
        self._explain()
        self._follow_row()

    def show(self) -> None:
        super().show()
        self._table.choose_one()

    def refresh_now(self) -> None:
        self.console.recovery.refresh()
        self._pane.refresh_now()

    def times_changed(self) -> None:
        self._pane.times_changed()

    def leave(self) -> bool:
        return self._leave_story()

    def subject(self) -> Subject | None:
        """The task or workflow that the finding is about; of several, the one that has waited longest."""
        row = self._table.cursor_row
        kind = "" if row is None else row.finding.target_kind
        return Subject(kind, row.finding.ids[0]) if row is not None and kind in ("task", "workflow") else None

    def intent(self, verb: str) -> Intent | None:
        """The remedy of this name that the chosen findings offer, for all of their rows."""
        chosen = self._chosen()
        if verb == "requeue" and len(about := {finding.target_kind for finding in chosen}) == 1:
            verb = _REQUEUE_OF.get(about.pop(), verb)
        remedies = _shared(verb, chosen)
        if not remedies:
            self._say_possible_verbs(verb, chosen)
            return None
        ids = [row_id for remedy in remedies for row_id in remedy.ids]
        return Intent(VERBS[remedies[0].target_kind, verb], Selection.of_ids(ids), remedies[0].options)

    def fits(self, action: Action) -> bool:
        """Return whether all of the chosen findings offer this verb, and alike."""
        if action.scope not in (Scope.VERBS, Scope.RECOVERY) or action.id not in _KEY_OF_VERB.values():
            return action.scope is not Scope.TABLE or bool(self._table.rows)
        verbs = {verb for verb, key in _KEY_OF_VERB.items() if key == action.id}
        chosen = self._chosen()
        return any(_shared(verb, chosen) for verb in verbs)

    def _chosen(self) -> list[Finding]:
        return [row.finding for row in self._table.chosen]

    def _say_possible_verbs(self, verb: str, chosen: Sequence[Finding]) -> None:
        if not chosen:
            self.say_none_chosen(verb, "line")
            return
        offered = [one.verb for one in chosen[0].remedies if _shared(one.verb, chosen)]
        ways = ", ".join(f"{self._key(verb)} {verb}" for verb in offered)
        here = chosen[0].what if len(chosen) == 1 else f"these {len(chosen)} lines together"
        self.console.say(f"{verb} does not apply to {here}; {ways or 'act on them one by one'}")

    # Actions of the operator.

    @on(RowTable.Opened)
    def _open(self, message: RowTable.Opened) -> None:
        message.stop()
        row = self._table.cursor_row
        if row is None:
            return
        if row.finding.target_kind == "task" and len(row.finding.ids) == 1:
            self.console.open_task(row.finding.ids[0])
        elif row.finding.target_kind == "workflow":
            self.console.show_workflow(row.finding.ids[0])
        elif row.finding.target_kind == "schedule":
            self.console.show_schedules(schedules_of(row.finding))
        elif row.finding.target_kind == "database":
            self.console.say("it is about the database, not about tasks; what mends it stands below")
        else:
            self.console.show_tasks(filter_of(row.finding))

    @on(RowTable.CursorMoved)
    def _explain_another(self, message: RowTable.CursorMoved) -> None:
        message.stop()
        self._explain()

    # Drawing.

    def tick(self) -> None:
        if self.shown and self._snapshot is not None:
            if self._snapshot.report is not None:
                self._table.tick(self.now)
            self._summarise()

    def _summarise(self) -> None:
        if self._snapshot is not None:
            link = self.console.link
            words = headline(self._snapshot, self.now)
            if self._snapshot.report is None and not link.status.is_up:
                words = f"not connected to {link.status.database_label}"
            classes = ("-error",) if self._snapshot.error else ()
            self.query_one("#summary", LineCell).put(self._glyphs.text(words), *classes)

    def _explain(self) -> None:
        row = self._table.cursor_row
        title = f"why: {row.finding.what}" if row is not None else ""
        self.query_one("#why-title", LineCell).put(self._glyphs.text(title))
        facts = drawn("why", lambda: [] if row is None else why_of(row), lambda words: [Fact("", words, Tone.BAD)])
        self.query_one("#why", Facts).show(facts)

    def _key(self, verb: str) -> str:
        return key_for(_KEY_OF_VERB[verb], self.screen, self._glyphs)


def _shared(verb: str, chosen: Sequence[Finding]) -> list[Remedy]:
    """Return the remedies of this name if all findings offer it, for one kind of targets and with equal options."""
    remedies = [remedy for finding in chosen for remedy in finding.remedies if remedy.verb == verb]
    alike = all((one.target_kind, one.options) == (remedies[0].target_kind, remedies[0].options) for one in remedies)
    everywhere = all(any(remedy.verb == verb for remedy in finding.remedies) for finding in chosen)
    return remedies if alike and everywhere else []


def _task() -> type[Companion[Any]]:
    from horsies_tui.task.view import TaskBeside

    return TaskBeside


def _workflow() -> type[Companion[Any]]:
    from horsies_tui.workflow.beside import WorkflowBeside

    return WorkflowBeside
