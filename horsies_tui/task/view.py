"""The screen of one task: its story with search, export and links, updated while it is open."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final, cast

from textual import on
from textual.message import Message

from horsies.config.recovery import RecoveryConfig
from horsies.display.payload import Masks
from horsies.operations.selection import Selection
from horsies.operations.verb import TaskVerb
from horsies_tui.actions import Scope, bindings, bindings_of
from horsies_tui.look.damage import drawn
from horsies_tui.look.glyphs import glyphs
from horsies_tui.look.units import zone_of
from horsies_tui.story.companion import Companion
from horsies_tui.story.lines import Fold, OpenTask, OpenWorkflow, ShowTasks, ShowWorkers, damaged
from horsies_tui.story.parts import plain
from horsies_tui.story.payload import Payload, StoryContext, read_payload, source_of
from horsies_tui.story.view import StoryHead, StoryView
from horsies_tui.task.detail_search import DetailSearch
from horsies_tui.task.document import choices, document, nothing
from horsies_tui.task.export import PARTS, PartExporter
from horsies_tui.task.facts import head
from horsies_tui.task.feed import DetailFeed, DetailSnapshot
from horsies_tui.task.look_sheet import LookSheet
from horsies_tui.widgets.menus import Item, PickOne
from horsies_tui.widgets.prompt import Prompt

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from textual.app import ComposeResult
    from textual.binding import BindingType

    from horsies.views import TaskDetail
    from horsies_tui.actions import Action
    from horsies_tui.feed.link import DatabaseLink
    from horsies_tui.story.tree import Path, Tree
    from horsies_tui.task.look_sheet import Kind

_AT_ONCE: Final = 20_000
"""Number of characters that are decoded within 5 ms. More are decoded in a thread, so that keys stay quick."""
_OF_RUNNING: Final = frozenset({"detail.stack", "detail.output"})


class DetailView(Companion[DetailSnapshot]):
    TITLE = "Task"
    BINDINGS: ClassVar[list[BindingType]] = [*bindings(Scope.DETAIL, Scope.VERBS)]

    @dataclass
    class PayloadRead(Message, bubble=False):
        """The arguments and the result were decoded."""

        payload: Payload

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - textual's name
        super().__init__(id=id)
        self._seen = ""
        """Id of the task that was shown last."""
        self._came_from: list[str] = []
        """Ids of the tasks whose links led to this one, for going back."""
        self._snapshot = DetailSnapshot()
        self._payload: Payload | None = None
        self._open: frozenset[Fold] = frozenset()

    def compose(self) -> ComposeResult:
        self._glyphs = glyphs(ascii_only=self.console.options.ascii)
        self._masks = Masks(frozenset(self.console.options.config.mask_arguments))
        self._head = StoryHead(self._glyphs, id="head")
        self._story = StoryView(self._glyphs, beside=self.BESIDE, id="story")
        self._search = DetailSearch(self, self._story, self._show)
        self._exporter = PartExporter(self, self._masks, self._glyphs)
        yield from (self._head, self._story)

    # Called by the base class.

    def create_feed(self, link: DatabaseLink, publish: Callable[[DetailSnapshot], None]) -> DetailFeed:
        feed = DetailFeed(link, publish, exact=self.BESIDE)
        if self._asked:
            feed.ask(self._asked)
        return feed

    def draw(self, snapshot: DetailSnapshot) -> None:
        self._snapshot = snapshot
        self.refresh_bindings()
        if not snapshot.loading or snapshot.error is not None:
            self._answered()
        if snapshot.detail is not None:
            self._seen = snapshot.text
            self._take_payload(snapshot.detail)
        self._show()

    def fits(self, action: Action) -> bool:
        verb, detail = action.record, self._snapshot.detail
        if action.id in _OF_RUNNING:
            return detail is not None and detail.row.status == "RUNNING"
        if not isinstance(verb, TaskVerb):
            return True
        return detail is not None and verb.fits(detail.row.status, detail.row.error_code)

    def selection(self) -> Selection | None:
        detail = self._snapshot.detail
        return None if detail is None else Selection.of_ids([detail.row.id])

    def leave(self) -> bool:
        """Undo one step on `esc`: end the search, then go back to the task whose link led here."""
        if self._search.needle:
            self._search.begin("")
        elif self._came_from:
            self._ask(self._came_from.pop())
        else:
            return False
        return True

    def take_focus(self) -> None:
        self._story.focus()

    def refresh_now(self) -> None:
        self._detail_feed.refresh()

    def times_changed(self) -> None:
        self._show()

    def open(self, task_id: str) -> None:
        """Show the task with this id, or with this beginning or end of its id."""
        self._came_from.clear()
        self._ask(task_id)

    # Keys.

    def action_previous_row(self) -> None:
        self._step(-1, "this is the first row of the list")

    def action_next_row(self) -> None:
        self._step(1, "this is the last row of the list")

    def action_find(self) -> None:
        hint = "text in any line or value"
        prompt = Prompt("search", hint, str, lambda _text: "", self._glyphs, value=self._search.needle)
        self.console.push_sheet(prompt, self._find)

    def action_next_match(self) -> None:
        self._go_to_match(1)

    def action_previous_match(self) -> None:
        self._go_to_match(-1)

    def action_stack(self) -> None:
        self._look("stack")

    def action_output(self) -> None:
        self._look("output")

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Disable the editor in a browser, because it would open on the server."""
        return not (action == "editor" and self.app.is_web)

    def action_editor(self) -> None:
        """Open a part of the task in the user's editor."""
        items = [Item(part, part, letter) for part, letter in zip(PARTS, "aret", strict=True)]
        menu = PickOne("Open in an editor", items, "", self._glyphs)
        self.console.push_sheet(menu, lambda part: None if part is None else self.read_outside(part))

    def read_outside(self, part: str, *, pager: bool = False) -> None:
        detail = self._snapshot.detail
        if detail is None:
            self.console.say("no task is open yet")
        else:
            self._exporter.read_outside(detail, self._snapshot.why, part, pager=pager)

    def action_copy(self) -> None:
        if self._snapshot.detail is not None:
            self._exporter.copy_task(self._snapshot.detail, self._snapshot.why)

    def action_copy_line(self) -> None:
        line, place = self._story.line, self._story.place
        if line is None or place is None:
            return
        tree = self._tree(place.section)
        if tree is not None and isinstance(line.key, tuple):
            value = plain(tree.part(line.key).value)
        else:
            value = line.text.strip()
        self._exporter.copy_text(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2))

    # Messages from widgets.

    @on(StoryView.Chosen)
    def _follow(self, chosen: StoryView.Chosen) -> None:
        chosen.stop()
        match chosen.target:
            case OpenTask(task_id) if self.BESIDE:
                self.console.open_task(task_id)
            case OpenTask(task_id):
                if self._snapshot.detail is not None:
                    self._came_from.append(self._snapshot.detail.row.id)
                self._ask(task_id)
            case OpenWorkflow(workflow_id, index):
                self.console.show_workflow(workflow_id, index)
            case ShowTasks(filter_text):
                self.console.show_tasks(filter_text)
            case ShowWorkers(filter_text):
                self.console.show_workers(filter_text)
            case Fold(section, part) as fold:
                tree = self._tree(section)
                if tree is not None:
                    tree.toggle(cast("Path", part))
                else:
                    self._open ^= {fold}
                self._show()

    @on(StoryView.Resized)
    def _make_for_width(self, resized: StoryView.Resized) -> None:
        resized.stop()
        self._show()

    # Drawing.

    def _ask(self, task_id: str) -> None:
        self._asked = task_id
        self._open = frozenset()
        self._search.begin("")
        self._story.start_again()
        if self._story.document:
            self._keep_former()
        if self.feed is not None:
            self._detail_feed.ask(task_id)

    def _look(self, kind: Kind) -> None:
        if reason := self.console.why_no_writes():
            self.console.say_error(f"cannot show the task's stack or output: {reason}")
        elif self._snapshot.detail is not None:
            zone, link = zone_of(utc=self.console.utc), self.console.link
            sheet = LookSheet(self._snapshot.detail.row.id, kind, link, self._masks, self._glyphs, zone)
            self.console.push_sheet(sheet, lambda _closed: None)

    def _find(self, needle: str | None) -> None:
        self.take_focus()
        if needle:
            self._search.begin(needle)

    def _go_to_match(self, step: int) -> None:
        if self._search.needle:
            self._search.step(step)
        else:
            self.console.say("nothing to repeat; / starts a search")

    @on(DetailSearch.Done)
    def _show_matches(self, done: DetailSearch.Done) -> None:
        self._search.take(done)

    def _step(self, step: int, no_more: str) -> None:
        task_id = self.console.neighbour(step)
        if task_id is None:
            self.console.say(no_more)
        else:
            self.open(task_id)

    def tick(self) -> None:
        """Update the ages if the task has not ended and the screen is not frozen."""
        detail, link = self._snapshot.detail, self.console.link
        live = detail is not None and detail.row.finished_at is None
        if self.shown and live and link.status.is_up and self.frozen_at is None:
            self._show()

    def _show(self) -> None:
        width = self._story.text_width
        snapshot = self._snapshot
        if not width:
            return
        if snapshot.detail is not None:
            context = self._story_context(snapshot.detail, self._now(snapshot.detail))
            task_id = snapshot.detail.row.id
            self._head.put(drawn("head", lambda: head(context, width), damaged, "task", task_id))
            self._story.put(document(context, width))
        elif snapshot.ambiguous is not None:
            self._head.put(())
            self._story.put(choices(snapshot.ambiguous, self._glyphs))
        elif self._slow is None:
            self._head.put(())
            self._story.put(nothing(snapshot, width, self._glyphs, existed=self.BESIDE or self._seen == snapshot.text))

    def _story_context(self, detail: TaskDetail, now: datetime) -> StoryContext:
        payload = self._payload if self._payload and self._payload.source[0] == detail.row.id else None
        recovery = self._snapshot.settings or RecoveryConfig()
        zone = zone_of(utc=self.console.utc)
        return StoryContext(detail, now, self._glyphs, zone, recovery, self._snapshot.why, payload, self._open)

    def _now(self, detail: TaskDetail) -> datetime:
        link = self.console.link
        return self.now if link.status.is_up else self._snapshot.now or detail.now

    @property
    def _detail_feed(self) -> DetailFeed:
        assert isinstance(self.feed, DetailFeed)
        return self.feed

    # The payload.

    def _tree(self, section: str) -> Tree | None:
        return None if self._payload is None else self._payload.tree(section)

    def _take_payload(self, detail: TaskDetail) -> None:
        """Decode the payload, if it has changed."""
        source = source_of(detail)
        if self._payload is not None and self._payload.source == source:
            return
        texts = (detail.args, detail.kwargs, detail.result, detail.options, detail.failed_reason)
        if sum(len(stored.text) for stored in texts if stored is not None) <= _AT_ONCE:
            self._use(read_payload(detail, self._masks, self._payload))
        else:
            self.run_worker(self._decode(detail), group="payload", exclusive=True)

    async def _decode(self, detail: TaskDetail) -> None:
        payload = await asyncio.to_thread(read_payload, detail, self._masks, self._payload)
        self.post_message(self.PayloadRead(payload))

    @on(PayloadRead)
    def _payload_read(self, read: PayloadRead) -> None:
        detail = self._snapshot.detail
        if detail is not None and source_of(detail) == read.payload.source:
            self._use(read.payload)
            self._show()

    def _use(self, payload: Payload) -> None:
        self._payload = payload
        self._search.use(payload)


class TaskBeside(DetailView, inherit_bindings=False):
    """A task's story beside a list. Verbs act on the list's row; links open the task's screen."""

    BESIDE = True
    BINDINGS: ClassVar[list[BindingType]] = [
        *bindings_of("detail.find", "detail.next_match", "detail.previous_match", "detail.copy", "detail.copy_line")
    ]
