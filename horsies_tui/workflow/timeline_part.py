"""The timeline of the workflow screen: it takes the place of the graph, and sub-workflows unfold in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual import on

from horsies_tui.look.units import zone_of
from horsies_tui.story.companion import Companion
from horsies_tui.workflow.feed import WorkflowFeed, WorkflowSnapshot
from horsies_tui.workflow.gantt import gantt
from horsies_tui.workflow.gantt_view import GanttView
from horsies_tui.workflow.head import TimelineWanted

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from horsies_tui.story.view import StoryView
    from horsies_tui.workflow.graph_view import GraphView
    from horsies_tui.workflow.head import Body


class TimelinePart(Companion[WorkflowSnapshot]):
    """The base of the screen; its other part has the graph."""

    _body: Body
    _gantt: GanttView
    _graph: GraphView
    _story: StoryView
    _snapshot: WorkflowSnapshot

    # The other part has these two.
    _place: Callable[[], None]
    _go_to: Callable[[int], None]

    _unfolded: frozenset[str] = frozenset()

    @property
    def _drawing_shown(self) -> GraphView | GanttView:
        """The timeline, or the graph."""
        return self._gantt if self.has_class("-timeline") else self._graph

    @property
    def _workflow_feed(self) -> WorkflowFeed:
        assert isinstance(self.feed, WorkflowFeed)
        return self.feed

    @on(TimelineWanted)
    def _toggle_timeline(self, message: TimelineWanted) -> None:
        """Show the timeline in place of the graph, or the graph again, with the cursor on the same node."""
        message.stop()
        story = self._snapshot.story
        self.set_class(not self.has_class("-timeline"), "-timeline")
        if story is not None and self._graph.cursor is not None:
            self._gantt.go_to(story.row.id, self._graph.cursor)
        self._ask_for_times()
        self._place()
        self._show()
        self._drawing_shown.focus()

    def _ask_for_times(self) -> None:
        self._workflow_feed.read_times(self._unfolded if self.has_class("-timeline") else None)

    def _show_timeline(self, now: datetime) -> None:
        if not self.has_class("-timeline"):
            return
        times = self._snapshot.times
        whole = None if times is None else times.get(self._snapshot.story.row.id if self._snapshot.story else "")
        shown = None if whole is None or times is None else gantt(whole, times, self._unfolded, now)
        self._gantt.put(shown, zone_of(utc=self.console.utc), self._body.size.height)

    @on(GanttView.CursorMoved)
    def _show_details(self, message: GanttView.CursorMoved) -> None:
        """The details are those of nodes of this workflow; a sub-workflow's are on its own screen."""
        message.stop()
        story = self._snapshot.story
        if story is not None and message.row.workflow_id == story.row.id:
            self._go_to(message.row.node.index)

    @on(GanttView.Opened)
    def _open_row(self, message: GanttView.Opened) -> None:
        message.stop()
        node = message.row.node
        if node.sub_workflow_id is not None:
            self._unfolded ^= {node.sub_workflow_id}
            self._ask_for_times()
            self._show()
        elif node.task_status is not None and node.task_id is not None:
            self.console.open_task(node.task_id)
        else:
            self.console.say(f"{node.label} has no task: it is {node.status}")

    @on(GanttView.StoryWanted)
    def _from_timeline_to_story(self, message: GanttView.StoryWanted) -> None:
        message.stop()
        self._story.focus()
