"""Parts of the workflow screen: its layout container, and the path of workflows that led to it."""

from __future__ import annotations

from typing import NamedTuple

from textual.containers import Container
from textual.message import Message


class ParentStep(NamedTuple):
    """A workflow from which a node led here, and that node."""

    workflow_id: str
    name: str
    node: int | None


class TimelineWanted(Message):
    """Show the timeline in place of the graph, or the graph again."""


class Body(Container):
    """Contains the graph and the details, which share its height."""

    class Resized(Message):
        """The height must be divided again."""

    def on_resize(self) -> None:
        self.post_message(self.Resized())
