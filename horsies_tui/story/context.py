"""What a story is told from: the snapshot, the moment, and how it is to be shown."""

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
    """The database's time; for a task that has ended, and on a screen held still, that of its reading."""
    glyphs: Glyphs
    zone: tzinfo | None
    recovery: RecoveryConfig
    why: Why | None = None
    payload: Payload | None = None
    """None while it is being read."""
    open: frozenset[Fold] = frozenset()
    """What is unfolded; those of the payload are in its trees."""
