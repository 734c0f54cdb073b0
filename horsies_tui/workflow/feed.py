"""The feed of one workflow: its nodes, and the details of the node under the cursor."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from horsies.operations.cluster import read_cluster
from horsies.operations.why import why_pending
from horsies.views import Ambiguous, TaskDetail, WorkflowStory, node_story, task_detail, workflow_story
from horsies_tui.feed.loop import Feed
from horsies_tui.feed.pace import USUAL, Pace, Rhythm

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from horsies.config.recovery import RecoveryConfig
    from horsies.operations.why import Why
    from horsies.store.connect import Connection
    from horsies.views import NodeStory
    from horsies_tui.feed.link import Link

_BEATS_EVERY_S: Final = 5.0
"""Heartbeats send no notification, so the node is read this often."""


@dataclass(frozen=True, slots=True)
class NodeTold:
    """A node with its task, if it has one."""

    story: NodeStory
    task: TaskDetail | None
    why: Why | None


@dataclass(frozen=True, slots=True)
class WorkflowSnapshot:
    """One workflow. All None and no error: it does not exist, or (`loading`) has not been read yet."""

    text: str = ""
    story: WorkflowStory | None = None
    ambiguous: Ambiguous | None = None
    node: NodeTold | None = None
    """None until it is read."""
    settings: RecoveryConfig | None = None
    loading: bool = True
    error: str | None = None
    now: datetime | None = None


class WorkflowFeed(Feed):
    """Publishes a snapshot on each change. Reads nothing until a workflow is requested."""

    NAME = "workflow"

    def __init__(self, link: Link, publish: Callable[[WorkflowSnapshot], None], *, rhythm: Rhythm = USUAL) -> None:
        super().__init__(link)
        self.snapshot = WorkflowSnapshot()
        self._publish_to = publish
        seldom = replace(rhythm, reconcile_s=min(rhythm.reconcile_s, _BEATS_EVERY_S))
        self._flow, self._node = Pace(seldom), Pace(seldom)
        self._text: str | None = None
        self._index: int | None = None
        self._told: int | None = None
        """The index of the node that was read last."""
        self._settings: RecoveryConfig | None = None

    def ask(self, text: str) -> None:
        """Read this workflow from now on: an id, or its beginning or end."""
        self._text, self._index, self._told = text, None, None
        self._supersede()
        self.refresh()
        self._publish(text=text, story=None, ambiguous=None, node=None, loading=True)

    def choose(self, index: int) -> None:
        """Read this node; it is under the cursor."""
        if index != self._index:
            self._index = index
            self._supersede()
            self._node.renew()
            self._wake.set()

    def refresh(self) -> None:
        """Read everything again at once."""
        self._flow.renew()
        self._node.renew()
        self._wake.set()

    def _on_dirty(self, channel: str, payload: str) -> None:
        story = self.snapshot.story
        if not channel:
            self.refresh()
        elif story is not None and self._is_about(story, channel, payload):
            if not self._flow.dirty:
                self._wake.set()
            self._flow.mark()
            self._node.mark()

    def _is_about(self, story: WorkflowStory, channel: str, payload: str) -> bool:
        """Includes sub-workflows: their progress is shown on their nodes."""
        if channel == "horsies_workflow_status":
            return payload == story.row.id or any(node.sub_workflow_id == payload for node in story.nodes)
        if channel in ("task_done", "horsies_task_status"):
            # The id of a task just sent for a node is not known yet, and those of a sub-workflow's tasks never are.
            waits = any(node.task_id is None and node.status not in ("COMPLETED", "SKIPPED") for node in story.nodes)
            return waits or any(node.task_id == payload for node in story.nodes)
        return False

    def _due_at(self) -> float | None:
        has_all = not self.snapshot.loading and self._told == self._index
        if self._text is None or (self._frozen and has_all):
            return None
        told = self._link.listens
        due = self._flow.due_at(told=told)
        return due if self._index is None else min(due, self._node.due_at(told=told))

    async def _step(self) -> None:
        told = self._link.listens
        node_first = self.snapshot.story is not None and self._index is not None
        if node_first and self._node.due_at(told=told) < self._flow.due_at(told=told):
            pace, read = self._node, self._read_node
        else:
            pace, read = self._flow, self._read_flow
        pace.begin(self._now())
        pace.end(self._now(), done=await read())

    async def _read_flow(self) -> bool:
        text = self._text
        assert text is not None
        answer = await self._read(lambda conn: self._tell(conn, text))
        if text != self._text:
            return False
        if answer is None:
            self._publish()
            return False
        found, settings = answer
        self._publish(
            story=self._same(found) if isinstance(found, WorkflowStory) else None,
            ambiguous=found if isinstance(found, Ambiguous) else None,
            settings=settings,
            loading=False,
        )
        return True

    async def _tell(self, conn: Connection, text: str) -> tuple[WorkflowStory | Ambiguous | None, RecoveryConfig]:
        found = await workflow_story(conn, text)
        if self._settings is None:
            async with conn.transaction(readonly=True):
                self._settings = (await read_cluster(conn)).settings
        return found, self._settings

    async def _read_node(self) -> bool:
        story, index = self.snapshot.story, self._index
        if story is None or index is None:
            return True
        told = await self._read(lambda conn: _tell_node(conn, story.row.id, index))
        if (story.row.id, index) != (self.snapshot.story and self.snapshot.story.row.id, self._index):
            return False
        if told is None:
            self._publish()
            return False
        self._told = index
        self._publish(node=self._same_node(told))
        return True

    def _same(self, story: WorkflowStory) -> WorkflowStory:
        """The known object if only the time of the read differs, and likewise each node, to avoid drawing it again."""
        known = self.snapshot.story
        if known is None or known.row.id != story.row.id:
            return story
        if replace(story, now=known.now) == known:
            return known
        before = {node.index: node for node in known.nodes}
        nodes = tuple(before[node.index] if before.get(node.index) == node else node for node in story.nodes)
        return replace(story, nodes=nodes)

    def _same_node(self, told: NodeTold) -> NodeTold:
        known = self.snapshot.node
        if known is None:
            return told
        task = told.task
        if task is not None and known.task is not None:
            task = replace(task, now=known.task.now)
        again = NodeTold(replace(told.story, now=known.story.now), task, told.why)
        return known if again == known else told

    def _publish(self, **changes: Any) -> None:
        snapshot = replace(self.snapshot, error=self._error, **changes)
        if snapshot != self.snapshot:
            self.snapshot = replace(snapshot, now=self._link.clock.now())
            self._publish_to(self.snapshot)


async def _tell_node(conn: Connection, workflow_id: str, index: int) -> NodeTold | None:
    story = await node_story(conn, workflow_id, index)
    if story is None:
        return None
    if story.node.task_id is None:
        return NodeTold(story, None, None)
    task = await task_detail(conn, story.node.task_id)
    if not isinstance(task, TaskDetail):
        return NodeTold(story, None, None)
    why = await why_pending(conn, task.row.id) if task.row.status == "PENDING" else None
    return NodeTold(story, task, why)
