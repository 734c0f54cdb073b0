"""The clipboard of the terminal that somebody sits at, reached through SSH and tmux by OSC 52."""

from __future__ import annotations

import os
from base64 import b64encode
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from textual.app import App

MOST_BYTES: Final = 74_994
"""In base64, with what stands around it, that is 100 000 bytes: where terminals stop to listen, without a word."""


def fits(text: str) -> bool:
    return len(text.encode(errors="replace")) <= MOST_BYTES


def sequence(text: str) -> str:
    return f"\x1b]52;c;{b64encode(text.encode(errors='replace')).decode('ascii')}\a"


def through_tmux(raw: str) -> str:
    """For the terminal outside of tmux, where that lets it through (`allow-passthrough on`)."""
    return "\x1bPtmux;" + raw.replace("\x1b", "\x1b\x1b") + "\x1b\\"


def copy(app: App[Any], text: str, environ: Mapping[str, str] = os.environ) -> bool:
    """False where it is too much. Whether a terminal takes it is told to nobody."""
    if not fits(text):
        return False
    text = text.encode(errors="replace").decode()
    app.copy_to_clipboard(text)
    driver = app._driver  # noqa: SLF001 - textual has no other way to what it calls raw output
    if environ.get("TMUX") and driver is not None:
        # Both: with `set-clipboard on` tmux takes the plain one, with `allow-passthrough on` it hands this one on.
        driver.write(through_tmux(sequence(text)))
    return True
