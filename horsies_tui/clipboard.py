"""Copying to the clipboard of the operator's terminal, through SSH and tmux, by OSC 52 or a local program."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from base64 import b64encode
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

from horsies_tui.textual_internals import write_raw

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from textual.app import App
    from textual.widget import Widget

    from horsies_tui.view import Console

MOST_BYTES: Final = 74_994
"""As base64 with its escape sequence this is 100,000 bytes; many terminals silently ignore more."""


_PROGRAMS: Final = (
    (None, "pbcopy"),
    ("WAYLAND_DISPLAY", "wl-copy"),
    ("DISPLAY", "xclip", "-selection", "clipboard"),
)
"""Programs that read the clipboard's text on standard input, each after the environment variable that it needs."""
_PATIENCE_S: Final = 2.0


def fits(text: str) -> bool:
    return len(text.encode(errors="replace")) <= MOST_BYTES


def sequence(text: str) -> str:
    return f"\x1b]52;c;{b64encode(text.encode(errors='replace')).decode('ascii')}\a"


def through_tmux(raw: str) -> str:
    """Wrap the sequence for the terminal outside of tmux; tmux passes it on with `allow-passthrough on`."""
    return "\x1bPtmux;" + raw.replace("\x1b", "\x1b\x1b") + "\x1b\\"


def copy(view: Widget, text: str, what: str, say: Callable[[str], None] | None = None) -> bool:
    """Copy the text and confirm it in the footer or through `say`; False if it is too long for a terminal."""
    if fits(text):
        app, say = view.app, say or cast("Console", view.app).say
        work: Any = partial(_copy, app, text, what, say)  # a coroutine that is superseded at once is never awaited
        view.run_worker(work, group="copy", exclusive=True)
        return True
    return False


async def _copy(app: App[Any], text: str, what: str, say: Callable[[str], None]) -> None:
    """Says `copied` only when a local program succeeded: a terminal does not confirm an OSC 52 sequence."""
    if await asyncio.to_thread(given_to_a_program, text, os.environ):
        say(f"copied {what}")
    else:
        _send(app, text, os.environ)
        say(f"{what} sent to the terminal (OSC 52)")


def given_to_a_program(text: str, environ: Mapping[str, str]) -> bool:
    """Return whether a local clipboard program took the text. Over SSH none is tried: it would be the remote host's."""
    if environ.get("SSH_CONNECTION") or environ.get("SSH_TTY"):
        return False
    for needs, program, *options in _PROGRAMS:
        path = shutil.which(program, path=environ.get("PATH")) if needs is None or environ.get(needs) else None
        if path is not None and _run([path, *options], text, environ):
            return True
    return False


def _run(command: list[str], text: str, environ: Mapping[str, str]) -> bool:
    try:
        # A program that stays in the background to serve the selection must not hold one of our pipes.
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
    if environ.get("TMUX"):
        # Both: tmux takes the plain sequence with `set-clipboard on`, and passes this one on with `allow-passthrough
        # on`.
        write_raw(app, through_tmux(sequence(text)))
