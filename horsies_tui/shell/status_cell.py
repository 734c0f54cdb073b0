"""The header's cell for the state of the connection and the age of the data."""

from __future__ import annotations

from typing import TYPE_CHECKING

from horsies_tui.widgets.cell import LineCell

if TYPE_CHECKING:
    from datetime import datetime

    from horsies_tui.feed.status import LinkStatus


class StatusCell(LineCell):
    """`LIVE 0.4s`, `POLL 2s`, `FROZEN 14:05:12Z`, `STALE 38s, retry in 4s`, with READ-ONLY behind it."""

    DEFAULT_CSS = """
    StatusCell {
        color: $text-muted;
        &.-live { color: $text-success; }
        &.-frozen { color: $text-accent; text-style: bold; }
        &.-slow { color: $text-warning; }
        &.-stale, &.-down, &.-failed { color: $text-error; text-style: bold; }
    }
    """

    def show(self, status: LinkStatus, now: datetime, frozen: str = "") -> None:
        """`frozen`: when the view was frozen. Another reason for old data takes precedence."""
        state = status.state.value.lower()
        words = status.words(now)
        if frozen and status.is_up and not status.failing:
            state, words = "frozen", f"FROZEN {frozen}{' READ-ONLY' if status.read_only else ''}"
        if len(words) > self.content_size.width:
            words = words.replace("READ-ONLY", "RO")
        self.put(words, f"-{state}")
        self.tooltip = status.detail or "\n".join(failure.reason for failure in status.failing) or None
