"""The base of the two stories that are a screen of their own and are also shown beside the list of their row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final, cast

from horsies_tui.view import ConsoleView, SnapshotT

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual.timer import Timer

    from horsies_tui.feed.loop import StoryFeed

_PATIENCE_S: Final = 0.3
"""The previous story stays on the screen this long, so that stepping through a list does not flicker."""


class Companion(ConsoleView[SnapshotT]):
    """A story of one row, which follows the row while it is shown."""

    BESIDE: ClassVar[bool] = False
    """It stands beside a list: the list keeps the focus and the verbs, and the previous story is never blanked."""

    DEFAULT_CSS = "Companion.-old StoryView { text-style: dim; }"

    # Each story has these two.
    open: Callable[[str], None]
    _show: Callable[[], None]

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - textual's name
        super().__init__(id=id)
        self._slow: Timer | None = None
        self._asked = ""
        """What was requested: an id, or its beginning or end."""

    def look_at(self, row_id: str) -> None:
        """Show the story of this row; the same row again keeps its place."""
        if row_id == self._asked:
            cast("StoryFeed[Any]", self.feed).resume(row_id)
        else:
            self.open(row_id)

    def pause(self) -> None:
        """Read nothing until the next `look_at`; an answer that is under way is dropped."""
        cast("StoryFeed[Any]", self.feed).pause()

    def _keep_former(self) -> None:
        """Another story was requested: the present one stays until it is read, or for a moment."""
        if self._slow is None:
            self._slow = self.set_timer(_PATIENCE_S, self._leave_former)

    def _leave_former(self) -> None:
        if self.BESIDE:
            self.add_class("-old")
        else:
            self._answered()
            self._show()

    def _answered(self) -> None:
        """Show the story as current: it is the one that was requested."""
        self.remove_class("-old")
        if self._slow is not None:
            self._slow.stop()
            self._slow = None
