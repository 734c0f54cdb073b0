"""The feed of one workflow: its nodes, and the details of the node under the cursor."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from horsies.findings.cluster import read_cluster
from horsies.findings.why import why_pending
from horsies.views import (
    Ambiguous,
    TaskDetail,
    WorkflowStory,
    node_story,
    task_detail,
    workflow_runs,
    workflow_story,
)
from horsies_tui.feed.loop import FeedRead, StoryFeed
from horsies_tui.feed.pace import USUAL, ReadPace, Rhythm
from horsies_tui.feed.recorded import SnapshotPart
from horsies_tui.workflow.gantt import TimedStory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from datetime import datetime

    from horsies.config.recovery import RecoveryConfig
    from horsies.findings.why import Why
    from horsies.store.connect import Connection
    from horsies.views import NodeStory
    from horsies_tui.feed.link import DatabaseLink

_PROGRESS_EVERY_S: Final = 2.0
_BEATS_EVERY_S: Final = 5.0
"""Interval between two reads of the node, because heartbeats send no notification."""
_MOST_NODES, _MOST_NODES_BRIEF = 5_000, 300
"""Most nodes that are read, also in brief. Reading 5,000 nodes takes 60 ms, too long for each step in a list."""


@dataclass(frozen=True, slots=True)
class NodeDetail:
    """A node with its task, if it has one."""

    story: NodeStory
    task: TaskDetail | None
    why: Why | None


@dataclass(frozen=True, slots=True)
class WorkflowSnapshot:
    """One workflow. Without a workflow and an error, it does not exist, or has not been read yet if `loading`."""

    text: str = ""
    story: WorkflowStory | None = None
    ambiguous: Ambiguous | None = None
    node: NodeDetail | None = None
    """The node under the cursor; None until it is read."""
    times: Mapping[str, TimedStory] | None = None
    """Times of this workflow and its unfolded sub-workflows, by id, for the timeline; None until they are read."""
    settings: RecoveryConfig | None = None
    loading: bool = True
    error: str | None = None
    now: datetime | None = None


class WorkflowFeed(StoryFeed[WorkflowSnapshot]):
    """The feed. It publishes a snapshot on each change."""

    NAME = "workflow"

    def __init__(
        self,
        link: DatabaseLink,
        publish: Callable[[WorkflowSnapshot], None],
        *,
        brief: bool = False,
        rhythm: Rhythm = USUAL,
    ) -> None:
        """Create a feed. If `brief`, only complete ids are requested, and only the first nodes are read."""
        super().__init__(link, publish, WorkflowSnapshot())
        self._brief = brief
        self._index: int | None = None
        self._read_index: int | None = None
        """The index of the node that was read last."""
        self._settings: RecoveryConfig | None = None
        seldom = replace(rhythm, reconcile_s=min(rhythm.reconcile_s, _BEATS_EVERY_S))
        self._node = FeedRead(
            "node",
            self._query(self._requested_node, _read_node, self._put_node),
            ReadPace(seldom),
            on=self._is_about,
            wanted=lambda: bool(self._text) and self.snapshot.story is not None and self._index is not None,
        )
        self._timed: frozenset[str] | None = None
        """The sub-workflows that are unfolded in the timeline; None if no timeline is shown."""
        self._timed_last: tuple[str, frozenset[str]] | None = None
        self._times = FeedRead(
            "times",
            self._query(self._requested_times, _read_times, self._put_times),
            ReadPace(seldom),
            on=self._may_be_timed,
            wanted=lambda: bool(self._text) and self.snapshot.story is not None and self._timed is not None,
        )
        self._pace = ReadPace(seldom)
        self._reads = (
            FeedRead(
                "workflow",
                self._query(lambda: self._text, self._read_flow, self._put_flow),
                self._pace,
                on=self._is_about,
                wanted=lambda: bool(self._text),
            ),
            self._node,
            self._times,
        )

    def ask(self, text: str) -> None:
        """Read the workflow with this id, or with this beginning or end of its id."""
        self._text, self._index, self._read_index = text, None, None
        self._timed = None if self._timed is None else frozenset()
        self._supersede()
        self.refresh()
        self._publish(text=text, story=None, ambiguous=None, node=None, times=None, loading=True)

    def choose(self, index: int) -> None:
        """Read the node under the cursor."""
        if index != self._index:
            self._index = index
            self._supersede()
            self._node.pace.renew()
            self._wake.set()

    def read_times(self, unfolded: frozenset[str] | None) -> None:
        """Read the runs of all nodes, and of these sub-workflows, for the timeline; None stops it."""
        self._timed = unfolded
        self._times.pace.renew()
        self._wake.set()

    def parts(self) -> Iterator[SnapshotPart]:
        now, story = self.snapshot, self.snapshot.story
        if not self._text:
            return
        # A workflow requested by a part of its id is recorded under its complete id, because lists open it by that.
        known = story.row.id if story is not None and now.text == self._text and self._link.playback is None else ""
        fields = ("story", "ambiguous", "settings")
        yield SnapshotPart("story", fields, (known or self._text,), not now.loading, "this workflow")
        if story is not None and self._index is not None:
            read = now.node is not None and self._read_index == self._index
            yield SnapshotPart("node", ("node",), (story.row.id, str(self._index)), read, "this node")
        if story is not None and self._timed is not None:
            wanted, read = (story.row.id, *sorted(self._timed)), self._timed_last == self._requested_times()
            yield SnapshotPart("times", ("times",), wanted, read and now.times is not None, "this timeline")

    def _may_be_timed(self, channel: str, payload: str) -> bool:
        """Return whether a notification may concern the timeline. Ids of sub-workflows' tasks are not known."""
        return self._is_about(channel, payload) or (bool(self._timed) and channel == "task_done")

    def _requested_times(self) -> tuple[str, frozenset[str]]:
        story = self.snapshot.story
        return ("" if story is None else story.row.id), self._timed or frozenset()

    def _put_times(self, times: Mapping[str, TimedStory]) -> dict[str, Any]:
        self._timed_last = self._requested_times()
        return {"times": times}

    def _is_about(self, channel: str, payload: str) -> bool:
        """Return whether a notification concerns this workflow or its sub-workflows, whose progress is shown."""
        story = self.snapshot.story
        if story is None:
            return False
        if channel == "horsies_workflow_status":
            return payload == story.row.id or any(node.sub_workflow_id == payload for node in story.nodes)
        if channel in ("task_done", "horsies_task_status"):
            # The ids of tasks just sent for a node, and of sub-workflows' tasks, are not known here.
            waits = any(node.task_id is None and node.status not in ("COMPLETED", "SKIPPED") for node in story.nodes)
            return waits or any(node.task_id == payload for node in story.nodes)
        return False

    def _has_all(self) -> bool:
        timed = self._timed is None or self._timed_last == self._requested_times()
        return super()._has_all() and self._read_index == self._index and timed

    async def _read_flow(self, conn: Connection, text: str) -> tuple[WorkflowStory | Ambiguous | None, RecoveryConfig]:
        found = await workflow_story(
            conn, text, exact=self._brief, most_nodes=_MOST_NODES_BRIEF if self._brief else _MOST_NODES
        )
        if self._settings is None:
            async with conn.transaction(readonly=True):
                self._settings = (await read_cluster(conn)).settings
        return found, self._settings

    def _put_flow(self, answer: tuple[WorkflowStory | Ambiguous | None, RecoveryConfig]) -> dict[str, Any]:
        found, settings = answer
        reports = isinstance(found, WorkflowStory) and any(node.progress for node in found.nodes)
        self._pace.often_s = self._node.pace.often_s = _PROGRESS_EVERY_S if reports else None
        return {
            "story": self._same(found) if isinstance(found, WorkflowStory) else None,
            "ambiguous": found if isinstance(found, Ambiguous) else None,
            "settings": settings,
            "loading": False,
        }

    def _requested_node(self) -> tuple[str, int]:
        story, index = self.snapshot.story, self._index
        return ("", -1) if story is None or index is None else (story.row.id, index)

    def _put_node(self, detail: NodeDetail) -> dict[str, Any]:
        self._read_index = self._index
        return {"node": self._same_node(detail)}

    def _same(self, story: WorkflowStory) -> WorkflowStory:
        """Return the known object if only the time of the read differs, and likewise for nodes, to avoid redrawing."""
        known = self.snapshot.story
        if known is None or known.row.id != story.row.id:
            return story
        if replace(story, now=known.now) == known:
            return known
        before = {node.index: node for node in known.nodes}
        nodes = tuple(before[node.index] if before.get(node.index) == node else node for node in story.nodes)
        return replace(story, nodes=nodes)

    def _same_node(self, detail: NodeDetail) -> NodeDetail:
        known = self.snapshot.node
        if known is None:
            return detail
        task = detail.task
        if task is not None and known.task is not None:
            task = replace(task, now=known.task.now)
        again = NodeDetail(replace(detail.story, now=known.story.now), task, detail.why)
        return known if again == known else detail


async def _read_node(conn: Connection, node: tuple[str, int]) -> NodeDetail | None:
    workflow_id, index = node
    story = await node_story(conn, workflow_id, index)
    if story is None:
        return None
    if story.node.task_id is None:
        return NodeDetail(story, None, None)
    task = await task_detail(conn, story.node.task_id)
    if not isinstance(task, TaskDetail):
        return NodeDetail(story, None, None)
    why = await why_pending(conn, task.row.id) if task.row.status == "PENDING" else None
    return NodeDetail(story, task, why)


async def _read_times(conn: Connection, request: tuple[str, frozenset[str]]) -> Mapping[str, TimedStory]:
    """Read the times of the workflow, and of each unfolded one that still exists."""
    workflow_id, unfolded = request
    found = {}
    for each in (workflow_id, *sorted(unfolded)):
        story = await workflow_story(conn, each)
        if isinstance(story, WorkflowStory):
            found[each] = TimedStory(story, await workflow_runs(conn, each))
    return found
