"""The clipboard of the terminal that somebody sits at, reached through SSH and tmux by OSC 52."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from base64 import b64encode
from typing import TYPE_CHECKING, Any, Final, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from textual.app import App
    from textual.widget import Widget

    from horsies_tui.view import Console

MOST_BYTES: Final = 74_994
"""In base64, with what stands around it, that is 100 000 bytes: where terminals stop to listen, without a word."""


_PROGRAMS: Final = (
    (None, "pbcopy"),
    ("WAYLAND_DISPLAY", "wl-copy"),
    ("DISPLAY", "xclip", "-selection", "clipboard"),
)
"""What takes a clipboard's text on its standard input, after the variable without which it has none."""
_PATIENCE_S: Final = 2.0


def fits(text: str) -> bool:
    return len(text.encode(errors="replace")) <= MOST_BYTES


def sequence(text: str) -> str:
    return f"\x1b]52;c;{b64encode(text.encode(errors='replace')).decode('ascii')}\a"


def through_tmux(raw: str) -> str:
    """For the terminal outside of tmux, where that lets it through (`allow-passthrough on`)."""
    return "\x1bPtmux;" + raw.replace("\x1b", "\x1b\x1b") + "\x1b\\"


def copy(view: Widget, text: str, what: str, say: Callable[[str], None] | None = None) -> bool:
    """Copy it, and say how, in the footer or by `say`; False where it is too much for a terminal."""
    if fits(text):
        say = say or cast("Console", view.app).say
        view.run_worker(_copy(view.app, text, what, say), group="copy", exclusive=True)
        return True
    return False


async def _copy(app: App[Any], text: str, what: str, say: Callable[[str], None]) -> None:
    """`copied` is said only where a program has told so: no terminal answers whether it took what it was sent."""
    if await asyncio.to_thread(given_to_a_program, text, os.environ):
        say(f"copied {what}")
    else:
        _send(app, text, os.environ)
        say(f"{what} sent to the terminal (OSC 52)")


def given_to_a_program(text: str, environ: Mapping[str, str]) -> bool:
    """Whether a clipboard of this machine has it. Over SSH that would be the clipboard of another desk."""
    if environ.get("SSH_CONNECTION") or environ.get("SSH_TTY"):
        return False
    for needs, program, *options in _PROGRAMS:
        path = shutil.which(program, path=environ.get("PATH")) if needs is None or environ.get(needs) else None
        if path is not None and _run([path, *options], text, environ):
            return True
    return False


def _run(command: list[str], text: str, environ: Mapping[str, str]) -> bool:
    try:
        # What stays behind to serve the selection must not hold a pipe of ours.
        done = subprocess.run(
            command,
            input=text.encode(errors="replace"),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=dict(environ),
            timeout=_PATIENCE_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def _send(app: App[Any], text: str, environ: Mapping[str, str]) -> None:
    text = text.encode(errors="replace").decode()
    app.copy_to_clipboard(text)
    driver = app._driver  # noqa: SLF001 - textual has no other way to what it calls raw output
    if environ.get("TMUX") and driver is not None:
        # Both: with `set-clipboard on` tmux takes the plain one, with `allow-passthrough on` it hands this one on.
        driver.write(through_tmux(sequence(text)))
