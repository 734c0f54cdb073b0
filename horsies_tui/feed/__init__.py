"""What the visible screen needs and when: frozen snapshots of the database, without textual, rich or SQL."""

from __future__ import annotations

from horsies_tui.feed.clock import Clock, DatabaseClock, FrozenClock
from horsies_tui.feed.desk import DeskFeed
from horsies_tui.feed.detail import DetailFeed
from horsies_tui.feed.link import Link
from horsies_tui.feed.overview import OverviewFeed, OverviewSnapshot
from horsies_tui.feed.pace import Patience, Rhythm
from horsies_tui.feed.snapshots import DeskSnapshot, DetailSnapshot, Edge, TaskNeed, TaskSnapshot
from horsies_tui.feed.status import FeedFailure, LinkDown, LinkError, LinkState, LinkStatus, Refused, SlowRead
from horsies_tui.feed.tasks import TaskFeed
from horsies_tui.feed.workflow import NodeTold, WorkflowFeed, WorkflowSnapshot
from horsies_tui.feed.workflows import WorkflowsFeed, WorkflowsSnapshot

__all__ = [
    "Clock",
    "DatabaseClock",
    "DeskFeed",
    "DeskSnapshot",
    "DetailFeed",
    "DetailSnapshot",
    "Edge",
    "FeedFailure",
    "FrozenClock",
    "Link",
    "LinkDown",
    "LinkError",
    "LinkState",
    "LinkStatus",
    "NodeTold",
    "OverviewFeed",
    "OverviewSnapshot",
    "Patience",
    "Refused",
    "Rhythm",
    "SlowRead",
    "TaskFeed",
    "TaskNeed",
    "TaskSnapshot",
    "WorkflowFeed",
    "WorkflowSnapshot",
    "WorkflowsFeed",
    "WorkflowsSnapshot",
]
