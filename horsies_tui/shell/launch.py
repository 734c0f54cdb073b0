"""Starts the console from the command line and restores the terminal when it ends, also after a failure."""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import traceback
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

from platformdirs import user_state_path

from horsies.display.terminal import say
from horsies.domain.masking import mask
from horsies_tui.shell.environment import fitting_theme, for_textual, unknown_theme, wants_ascii, why_unfit
from horsies_tui.shell.leaving import Leaving

if TYPE_CHECKING:
    from pathlib import Path

    from horsies_tui.settings import ConsoleOptions


def has_terminal() -> bool:
    """Return whether a console can be drawn here; if not, print why and what to do instead."""
    terminal = all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr))
    if reason := why_unfit(os.environ, is_terminal=terminal):
        help_text = "`horsies tasks ls` prints the same rows, as text or JSON"
        say(reason, f" = help: {help_text}", stream=sys.stderr)
    return reason is None


def run(options: ConsoleOptions) -> int:
    """Run the console and return its exit code. Raises ConfigurationError for unknown keys or an unknown theme."""
    theme = options.theme or fitting_theme(os.environ, options.settings.theme)
    if (error := unknown_theme(theme)) is not None:
        raise error if options.theme else error.with_note(f"it comes from {options.config.path}")
    options = replace(options, ascii=options.ascii or wants_ascii(os.environ), theme=theme)
    _set_environment(options)
    # Freeze the 95,000 objects that the imports created: they are never released, and a garbage collection that
    # traverses them takes 50 ms, during which a key waits.
    gc.disable()
    # Textual reads the environment on import, so its modules are imported only now.
    keys = import_module("horsies_tui.shell.keymap").keymap(options.settings.keys, options.config.path)
    if options.record is None and options.replay is None:
        app = import_module("horsies_tui.shell.app").ConsoleApp(options, keys=keys)
    else:
        app = import_module("horsies_tui.shell.recording").console_of(options, keys)
    gc.freeze()
    gc.enable()
    leaving = Leaving()
    code = asyncio.run(_drive(app, leaving, mouse=options.mouse))
    return _last_words(app, leaving, code)


def _set_environment(options: ConsoleOptions) -> None:
    for name, value in for_textual(os.environ, fps=options.fps).items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


async def _drive(app: Any, leaving: Leaving, *, mouse: bool) -> int:
    leaving.watch(asyncio.get_running_loop(), lambda: app.exit(0), last=lambda: app.attention.owed)
    code: int | None = await app.run_async(mouse=mouse)
    return code or 0


def _last_words(app: Any, leaving: Leaving, code: int) -> int:
    """Print one sentence on the restored terminal, if there is something to report."""
    if app.crash is not None:
        place = _write_report(app.crash)
        why = f"{type(app.crash).__name__}: {mask(str(app.crash))}"
        help_text = f"this is a defect of horsies: report it with {place}"
        say(f"horsies tui stopped: {why}", f" = help: {help_text}", stream=sys.stderr)
        return 1
    if leaving.signal is not None:
        say(f"horsies tui was ended by {leaving.signal.name}", stream=sys.stderr)
        return 128 + leaving.signal
    return code


def _write_report(error: BaseException) -> Path | str:
    text = mask("".join(traceback.format_exception(error)))
    path = user_state_path("horsies") / "tui-crash.txt"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)  # it may contain task arguments
        path.write_text(text, encoding="utf-8")
    except OSError:
        return "running it again with --debug"
    return path
