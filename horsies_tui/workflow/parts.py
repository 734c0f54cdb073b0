"""What the graph of a workflow stands in, and how somebody came to it."""

from __future__ import annotations

from typing import NamedTuple

from textual.containers import Container
from textual.message import Message


class Way(NamedTuple):
    """A workflow from which a node led here, and that node."""

    workflow_id: str
    name: str
    node: int | None


class Body(Container):
    """The graph and the story, which share its height."""

    class Resized(Message):
        """They are to be shared out anew."""

    def on_resize(self) -> None:
        self.post_message(self.Resized())
