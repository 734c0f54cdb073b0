"""The input for the sections of a task's screen: its data, the time, and display options."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from datetime import datetime, tzinfo

    from horsies.config.recovery import RecoveryConfig
    from horsies.operations.why import Why
    from horsies.views import TaskDetail
    from horsies_tui.look.glyphs import Glyphs
    from horsies_tui.story.lines import Fold
    from horsies_tui.story.payload import Payload


@dataclass(frozen=True, slots=True)
class StoryContext:
    detail: TaskDetail
    now: datetime
    """The database's time; for a task that has ended, and on a frozen screen, the time of the read."""
    glyphs: Glyphs
    zone: tzinfo | None
    recovery: RecoveryConfig
    why: Why | None = None
    payload: Payload | None = None
    """None until it is read."""
    open: frozenset[Fold] = frozenset()
    """The unfolded parts; those of the payload are stored in its trees."""
