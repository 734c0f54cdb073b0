"""The base of the stories of tasks and workflows, which are shown on a separate screen and beside their list."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final, cast

from horsies_tui.view import ConsoleView, SnapshotT

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual.timer import Timer

    from horsies_tui.feed.loop import StoryFeed

_KEEP_FORMER_S: Final = 0.3
"""How long the previous story stays on the screen, so that stepping through a list does not flicker."""


class Companion(ConsoleView[SnapshotT]):
    """A story of one row, which follows the row while it is shown."""

    BESIDE: ClassVar[bool] = False
    """True for a story beside a list, which keeps the focus and the verbs. The previous story is then never blanked."""

    DEFAULT_CSS = "Companion.-old StoryView { text-style: dim; }"

    # Set by subclasses.
    open: Callable[[str], None]
    _show: Callable[[], None]

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002 - textual's name
        super().__init__(id=id)
        self._slow: Timer | None = None
        self._asked = ""
        """The requested id, or its beginning or end."""

    def look_at(self, row_id: str) -> None:
        """Show the story of this row. If it is shown already, its scroll position is kept."""
        if row_id == self._asked:
            cast("StoryFeed[Any]", self.feed).resume(row_id)
        else:
            self.open(row_id)

    def pause(self) -> None:
        """Stop reading until the next `look_at`, and drop the answer to a read that has begun."""
        cast("StoryFeed[Any]", self.feed).pause()

    def _keep_former(self) -> None:
        """Keep the present story until the requested one is read, or for at most _KEEP_FORMER_S."""
        if self._slow is None:
            self._slow = self.set_timer(_KEEP_FORMER_S, self._leave_former)

    def _leave_former(self) -> None:
        if self.BESIDE:
            self.add_class("-old")
        else:
            self._answered()
            self._show()

    def _answered(self) -> None:
        """Show the story as current, because the requested one has been read."""
        self.remove_class("-old")
        if self._slow is not None:
            self._slow.stop()
            self._slow = None
