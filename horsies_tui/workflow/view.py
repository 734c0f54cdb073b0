"""The screen of one workflow: its graph, and below or beside it the details of the node under the cursor."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final, cast

from textual import on
from textual.message import Message

from horsies.config.recovery import RecoveryConfig
from horsies.display.payload import Masks
from horsies.operations.selection import Selection
from horsies.operations.verbs import VERBS
from horsies_tui.actions import Scope, bindings, bindings_of
from horsies_tui.clipboard import copy
from horsies_tui.intents import Intent
from horsies_tui.look.damage import drawn
from horsies_tui.look.glyphs import glyphs
from horsies_tui.look.units import zone_of
from horsies_tui.story.lines import Fold, Line, OpenTask, OpenWorkflow, damaged
from horsies_tui.story.payload import Payload, StoryContext, payload_of
from horsies_tui.story.view import StoryHead, StoryView
from horsies_tui.workflow.feed import WorkflowFeed, WorkflowSnapshot
from horsies_tui.workflow.gantt_view import GanttView
from horsies_tui.workflow.graph import arrange
from horsies_tui.workflow.graph_labels import Labels, vertices, wants
from horsies_tui.workflow.graph_sizes import MANY, Sizes
from horsies_tui.workflow.graph_view import GraphView
from horsies_tui.workflow.head import Body, HeadContext, ParentStep, flow_head, workflow_choices, workflow_missing
from horsies_tui.workflow.node import NodeContext, node_document, offered, texts_of, unfit_verbs, why_no_value
from horsies_tui.workflow.timeline_part import TimelinePart

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable
    from datetime import datetime

    from textual.app import ComposeResult
    from textual.binding import BindingType

    from horsies.views import NodeView, WorkflowStory
    from horsies_tui.actions import Action
    from horsies_tui.feed.link import DatabaseLink
    from horsies_tui.story.lines import Target
    from horsies_tui.story.tree import Path
    from horsies_tui.workflow.feed import NodeDetail

_AT_ONCE: Final = 20_000
"""This many characters are decoded within 5 ms; more are decoded in a thread, so that keys stay quick."""
_ROOMY: Final = 30
"""From this height on there is an empty line between the head and the graph."""
_FEW: Final = 60
"""Larger graphs are drawn in a thread: 200 tangled nodes take 35 ms for each size."""


class WorkflowView(TimelinePart):
    TITLE = "Workflow"
    BINDINGS: ClassVar[list[BindingType]] = [
        *bindings(Scope.WORKFLOW, Scope.FLOWS),
        *bindings_of("verbs.undo", "verbs.outcome"),
    ]

    DEFAULT_CSS = """
    WorkflowView {
        #body { height: 1fr; layout: vertical; }
        &.-beside #body { layout: horizontal; }
        &.-beside GraphView { height: 1fr; }
        &.-beside StoryView { width: 1fr; }
        GanttView { display: none; }
        &.-timeline GanttView { display: block; }
        &.-timeline GraphView, &.-empty GraphView, &.-empty GanttView { display: none; }
    }
    """

    @dataclass
    class PayloadRead(Message, bubble=False):
        """A node's arguments and result are decoded."""

        payload: Payload

    @dataclass
    class LaidOut(Message, bubble=False):
        """The layout of a large graph is done."""

        shape: Hashable
        sizes: Sizes

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - textual's name
        super().__init__(id=id)
        self._begun = ""
        """The workflow that is shown; `_asked` is the one that was requested."""
        self._to: int | None = None
        """The node to select once its workflow has been read."""
        self._parents: list[ParentStep] = []
        self._snapshot = WorkflowSnapshot()
        self._node_views: dict[int, NodeView] = {}
        """The snapshot's nodes, by index."""
        self._shape: Hashable = None
        """The nodes and dependencies that the graph was laid out for."""
        self._sizes: Sizes | None = None
        self._payload: Payload | None = None
        self._open: frozenset[Fold] = frozenset()
        self._unfit: frozenset[str] = frozenset()
        """Verbs that do not apply in the workflow's state."""

    def compose(self) -> ComposeResult:
        self._glyphs = glyphs(ascii_only=self.console.options.ascii)
        self._masks = Masks(frozenset(self.console.options.config.mask_arguments))
        self._head = StoryHead(self._glyphs, id="head")
        self._graph = GraphView(self._glyphs, id="graph")
        self._story = StoryView(self._glyphs, beside=self.BESIDE, id="story")
        self._gantt = GanttView(self._glyphs, id="gantt")
        self._body = Body(self._graph, self._gantt, self._story, id="body")
        yield from (self._head, self._body)

    # Called by the base class.

    def create_feed(self, link: DatabaseLink, publish: Callable[[WorkflowSnapshot], None]) -> WorkflowFeed:
        feed = WorkflowFeed(link, publish, brief=self.BESIDE)
        if self._asked:
            feed.ask(self._asked)
        feed.read_times(self._unfolded if self.has_class("-timeline") else None)
        return feed

    def draw(self, snapshot: WorkflowSnapshot) -> None:
        if self._slow is not None and snapshot.loading and snapshot.error is None:
            return  # the former workflow stays
        self._answered()
        self._begin(snapshot.text)
        if snapshot.story is not self._snapshot.story:
            self._node_views = {} if snapshot.story is None else {node.index: node for node in snapshot.story.nodes}
        self._snapshot = snapshot
        unfit = unfit_verbs(() if snapshot.story is None else (snapshot.story.row.status,))
        if unfit != self._unfit:
            self._unfit = unfit
            self.refresh_bindings()
        if snapshot.story is not None:
            self._lay_out(snapshot.story)
        if snapshot.node is not None:
            self._take_payload(snapshot.node)
        self._show()

    def fits(self, action: Action) -> bool:
        story = self._snapshot.story
        return offered(action.record, [] if story is None else [story.row.status])

    def intent(self, verb: str) -> Intent | None:
        story, index = self._snapshot.story, self._graph.cursor
        if story is None:
            self.console.say(f"{verb}: there is no workflow here")
            return None
        if (record := VERBS.get(("workflow", verb))) is not None:
            return Intent(record, Selection.of_ids([story.row.id]))
        if index is None:
            self.console.say(f"{verb}: there is no node under the cursor")
            return None
        node = self._node_views.get(index)
        if node is not None and verb == "complete" and (reason := why_no_value(story, node)):
            self.console.say_error(f"cannot set its result: {reason}")
            return None
        return Intent(VERBS["node", verb], Selection.of_node(story.row.id, index))

    def leave(self) -> bool:
        """`esc` undoes one step at a time: from the details to the graph, then to the parent workflow."""
        if self._story.has_focus and not self.has_class("-empty"):
            self._drawing_shown.focus()
        elif self._parents:
            parent = self._parents.pop()
            self._ask(parent.workflow_id, parent.node)
        else:
            return False
        return True

    def take_focus(self) -> None:
        (self._story if self.has_class("-empty") else self._drawing_shown).focus()

    def refresh_now(self) -> None:
        self._workflow_feed.refresh()

    def times_changed(self) -> None:
        self._show()

    def neighbour(self, step: int) -> str | None:
        """The task of the next node that has one."""
        nodes = [node for node in self._node_views.values() if node.task_status is not None]
        order = sorted(nodes, key=lambda node: node.index)
        at = next((at for at, node in enumerate(order) if node.index == self._graph.cursor), None)
        if at is None or not 0 <= at + step < len(order):
            return None
        self._go_to(order[at + step].index)
        return order[at + step].task_id

    def open(self, text: str, index: int | None = None) -> None:
        """Show this workflow (an id, or its beginning or end), with the cursor on this node."""
        self._parents.clear()
        self._ask(text, index)

    # Keys.

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer resume only for a paused workflow, and pause only for a running one."""
        return action != "verb" or parameters[0] not in self._unfit

    def action_copy(self) -> None:
        """Copy the id of the node's task, or the workflow's if the node has none."""
        story, node = self._snapshot.story, self._node_views.get(self._graph.cursor or 0)
        text = (node and node.task_id) or (story and story.row.id)
        if text:
            copy(self, text, text)

    def action_previous_row(self) -> None:
        self._step(-1, "this is the first workflow of the list")

    def action_next_row(self) -> None:
        self._step(1, "this is the last workflow of the list")

    # Messages from widgets.

    @on(GraphView.CursorMoved)
    def _choose_node(self, message: GraphView.CursorMoved) -> None:
        message.stop()
        self._choose(message.index)

    @on(GraphView.Opened)
    def _open_node(self, message: GraphView.Opened) -> None:
        message.stop()
        node = self._node_views[message.index]
        if node.sub_workflow_id is not None:
            self._follow(OpenWorkflow(node.sub_workflow_id))
        elif node.task_status is not None and node.task_id is not None:
            self.console.open_task(node.task_id)
        elif node.task_id is not None:
            self.console.say(f"{node.label}: the row of its task was deleted")
        else:
            self.console.say(f"{node.label} has no task yet: it is {node.status}")

    @on(GraphView.StoryWanted)
    def _to_story(self, message: GraphView.StoryWanted) -> None:
        message.stop()
        self._story.focus()

    @on(StoryView.Chosen)
    def _chosen(self, chosen: StoryView.Chosen) -> None:
        chosen.stop()
        self._follow(chosen.target)

    @on(StoryView.Resized)
    def _make_for_width(self, resized: StoryView.Resized) -> None:
        resized.stop()
        self._show()

    @on(Body.Resized)
    def _place_again(self, resized: Body.Resized) -> None:
        resized.stop()
        self._place()
        self._show()

    def _follow(self, target: Target) -> None:
        match target:
            case OpenTask(task_id):
                self.console.open_task(task_id)
            case OpenWorkflow(workflow_id, index):
                story = self._snapshot.story
                if story is not None:
                    self._parents.append(ParentStep(story.row.id, story.row.name, self._graph.cursor))
                self._ask(workflow_id, index)
            case Fold(section, part) as fold:
                tree = None if self._payload is None else self._payload.tree(section)
                if tree is not None:
                    tree.toggle(cast("Path", part))
                else:
                    self._open ^= {fold}
                self._show()

    # Drawing.

    def _ask(self, text: str, index: int | None) -> None:
        self._asked, self._to = text, index
        self._unfolded = frozenset()
        if self._snapshot.story is not None:
            self._begun = ""
            self._keep_former()
        if self.feed is not None:
            self._workflow_feed.ask(text)

    def _begin(self, text: str) -> None:
        """Show this workflow from its beginning, unless it is shown already."""
        if text == self._begun:
            return
        self._begun = text
        self._shape = self._sizes = None
        self._open = frozenset()
        self._graph.start_again()
        self._story.start_again()

    def _choose(self, index: int) -> None:
        self._open = frozenset()
        self._story.start_again()
        self._workflow_feed.choose(index)
        self._show()

    def _go_to(self, index: int) -> None:
        self._graph.go_to(index)
        self._choose(index)

    def _step(self, step: int, no_more: str) -> None:
        workflow_id = self.console.neighbour(step)
        if workflow_id is None:
            self.console.say(no_more)
        else:
            self.open(workflow_id)

    def tick(self) -> None:
        """Update the ages if the workflow has not ended and the screen is not frozen."""
        story, link = self._snapshot.story, self.console.link
        live = story is not None and story.row.completed_at is None
        if self.shown and live and link.status.is_up and self.frozen_at is None:
            self._show()

    def _lay_out(self, story: WorkflowStory) -> None:
        """Lay out the graph only if its nodes or dependencies changed, usually when a workflow is opened."""
        shape = (story.row.id, tuple((node.index, node.dependencies, node.sub_total) for node in story.nodes))
        if shape == self._shape:
            return
        self._shape = shape
        if len(story.nodes) > _FEW:
            self.run_worker(self._lay_out_many(shape, story.nodes), group="layout", exclusive=True)
        else:
            self._use(Sizes(arrange(vertices(story.nodes)), wants(story.nodes)))

    async def _lay_out_many(self, shape: Hashable, nodes: tuple[NodeView, ...]) -> None:
        arranged = await asyncio.to_thread(arrange, vertices(nodes))
        sizes = Sizes(arranged, wants(nodes))
        if len(nodes) <= MANY:
            await asyncio.to_thread(sizes.prepare)
        self.post_message(self.LaidOut(shape, sizes))
        if len(nodes) > MANY:  # their map is shown at once
            await asyncio.to_thread(sizes.prepare)

    @on(LaidOut)
    def _laid_out(self, message: LaidOut) -> None:
        if message.shape == self._shape:
            self._use(message.sizes)
            self._show()

    def _use(self, sizes: Sizes) -> None:
        first = next(iter(sizes.arranged.layers[0]), None) if sizes.arranged.layers else None
        failed = min((node.index for node in self._node_views.values() if node.status == "FAILED"), default=first)
        wanted = next((index for index in (self._to, self._graph.cursor, failed) if index in self._node_views), None)
        self._sizes, self._to = sizes, None
        self._graph.put(sizes, self._labels(self._now()))
        self._place()
        if wanted is not None:
            self._go_to(wanted)

    def _place(self) -> None:
        """Put the details beside a high graph if the width suffices for both, else below it."""
        width, height = self._body.size
        if self._sizes is not None and width and height:
            beside = None if self.has_class("-timeline") else self._sizes.beside(width, height)
            self.set_class(beside is not None, "-beside")
            self._graph.styles.width = beside or "1fr"
            self._graph.fit_into(None if beside else height)

    def _show(self) -> None:
        snapshot, width = self._snapshot, self._story.text_width
        empty = snapshot.story is None
        if empty is not self.has_class("-empty"):
            self.set_class(empty, "-empty")
            if self.shown and not self.BESIDE:
                self.take_focus()
        if snapshot.story is None:
            if width:
                self._head.put(())
                if snapshot.ambiguous:
                    self._story.put(workflow_choices(snapshot.ambiguous, self._glyphs))
                else:
                    self._story.put(workflow_missing(snapshot, width, self._glyphs, existed=self.BESIDE))
            return
        now = self._now()
        path = tuple(parent.name for parent in self._parents)
        zone = zone_of(utc=self.console.utc)
        context = HeadContext(snapshot.story, now, self._glyphs, zone, path)
        head = drawn(
            "head", lambda: flow_head(context, self.size.width - 1), damaged, "workflow", snapshot.story.row.id
        )
        self._head.put((*head, Line("gap", ())) if self.size.height > _ROOMY else head)
        labels = self._labels(now)
        if self._sizes is not None:
            self._graph.put(self._sizes, labels)
        self._show_timeline(now)
        node = self._node_views.get(-1 if self._graph.cursor is None else self._graph.cursor)
        if width and node is not None:
            self._story.put(node_document(self._node_context(node, labels), width))

    def _node_context(self, node: NodeView, labels: Labels) -> NodeContext:
        zone, detail = zone_of(utc=self.console.utc), self._snapshot.node
        if detail is None or detail.story.node.index != node.index or detail.story.workflow_id != self._story_id:
            return NodeContext(node, labels, zone)
        source = texts_of(detail.story, detail.task)
        payload = self._payload if self._payload is not None and self._payload.source.of == source.of else None
        task = None
        if detail.task is not None:
            recovery = labels.recovery
            task = StoryContext(detail.task, labels.now, self._glyphs, zone, recovery, detail.why, payload, self._open)
        return NodeContext(node, labels, zone, detail.story, task, payload)

    def _labels(self, now: datetime) -> Labels:
        return Labels(self._node_views, now, self._glyphs, self._snapshot.settings or RecoveryConfig())

    def _now(self) -> datetime:
        link, story = self.console.link, self._snapshot.story
        if link.status.is_up or story is None:
            return self.now
        return self._snapshot.now or story.now

    @property
    def _story_id(self) -> str | None:
        return None if self._snapshot.story is None else self._snapshot.story.row.id

    # The payload.

    def _take_payload(self, detail: NodeDetail) -> None:
        source = texts_of(detail.story, detail.task)
        if self._payload is not None and self._payload.source == source:
            return
        if source.length <= _AT_ONCE:
            self._payload = payload_of(source, self._masks, self._payload)
        else:
            self.run_worker(self._decode(detail), group="payload", exclusive=True)

    async def _decode(self, detail: NodeDetail) -> None:
        source = texts_of(detail.story, detail.task)
        self.post_message(self.PayloadRead(await asyncio.to_thread(payload_of, source, self._masks, self._payload)))

    @on(PayloadRead)
    def _payload_read(self, read: PayloadRead) -> None:
        detail = self._snapshot.node
        if detail is not None and texts_of(detail.story, detail.task) == read.payload.source:
            self._payload = read.payload
            self._show()
