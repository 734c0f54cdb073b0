"""The labels of keys in texts, as the user has them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from horsies_tui.actions import action_of, live_actions
from horsies_tui.keys import key_label

if TYPE_CHECKING:
    from textual.screen import Screen

    from horsies_tui.look.glyphs import Glyphs


def key_for(action_id: str, screen: Screen[Any], glyphs: Glyphs) -> str:
    """The first key of this action on this screen; if it has none here, its default key."""
    usual = action_of(action_id)
    keys = next((keys for action, keys in live_actions(screen) if action.id == action_id), None)
    return key_label((keys or (usual.keys if usual else [""]))[0], ascii_only=glyphs.ascii)


def hint(action_id: str, screen: Screen[Any], glyphs: Glyphs) -> str:
    """`R requeue`."""
    action = action_of(action_id)
    return f"{key_for(action_id, screen, glyphs)} {action.label if action else action_id}"
