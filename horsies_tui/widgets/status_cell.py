"""The one cell that never lies: how the console stands with its database."""

from __future__ import annotations

from typing import TYPE_CHECKING

from horsies_tui.widgets.cell import LineCell

if TYPE_CHECKING:
    from datetime import datetime

    from horsies_tui.feed import LinkStatus


class StatusCell(LineCell):
    """`LIVE 0.4s`, `POLL 2s`, `HELD`, `STALE 38s, retry in 4s`, with READ-ONLY behind it."""

    DEFAULT_CSS = """
    StatusCell {
        color: $text-muted;
        &.-live { color: $text-success; }
        &.-held { color: $text-accent; text-style: bold; }
        &.-slow { color: $text-warning; }
        &.-stale, &.-down { color: $text-error; text-style: bold; }
    }
    """

    def show(self, status: LinkStatus, now: datetime) -> None:
        words = status.words(now)
        if len(words) > self.content_size.width:
            words = words.replace("READ-ONLY", "RO")
        self.put(words, f"-{status.state.value.lower()}")
        self.tooltip = status.detail or None
