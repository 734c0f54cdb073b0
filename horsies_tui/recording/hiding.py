"""Masks values by the rules of the config file before they are written, so a file contains no more than the screen
showed.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from horsies.display.payload import HIDDEN, POSITIONAL
from horsies.views import AuditRow, Definition, NodeStory, Stored, TaskDetail, WorkflowStory
from horsies_tui.story.payload import closed

if TYPE_CHECKING:
    from horsies.display.payload import Masks

_POSITIONAL: Final = "args"
_TEXTS: Final[dict[type, tuple[str, ...]]] = {
    TaskDetail: ("args", "kwargs", "options", "result"),
    NodeStory: ("args", "kwargs", "options", "result", "summary"),
    WorkflowStory: ("result", "error", "success_policy"),
    Definition: ("args", "kwargs"),
}
"""Fields with stored JSON, either a `Stored` or a string."""


class Hiding:
    """Masks one recorded object per call."""

    def __init__(self, masks: Masks) -> None:
        self._masks = masks

    def __call__(self, value: Any) -> Any:
        if not self._masks.names:
            return value
        if isinstance(value, AuditRow):
            states = {name: self._masks.on(getattr(value, name)) for name in ("before_state", "after_state")}
            return replace(value, **states)
        names = _TEXTS.get(type(value), ())
        changes = {name: self._hide(name, getattr(value, name)) for name in names}
        return replace(value, **changes) if changes else value

    def _hide(self, name: str, value: Stored | str | None) -> Stored | str | None:
        if value is None:
            return None
        text, cut = (value.text, value.cut) if isinstance(value, Stored) else (value, False)
        if name == _POSITIONAL and self._masks.hides(POSITIONAL):
            hidden = json.dumps(HIDDEN)
        else:
            hidden = self._hide_in(text, closed(text) if cut else text)
        if hidden == text:
            return value
        return replace(value, text=hidden, cut=False) if isinstance(value, Stored) else hidden

    def _hide_in(self, text: str, whole: str | None) -> str:
        """Mask a text. A text that cannot be parsed is not recorded, as it is not shown."""
        try:
            tree = json.loads(text if whole is None else whole)
        except (ValueError, RecursionError):
            return json.dumps(HIDDEN)
        hidden = self._masks.on(tree)
        return text if hidden == tree else json.dumps(hidden)
