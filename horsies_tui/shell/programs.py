"""Opens a text in the user's editor or pager, while the console is suspended."""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import signal
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from textual.app import SuspendNotSupported

from horsies.domain.errors import ErrorCode, HorsiesError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from textual.app import App

_EDITOR: Final = ("VISUAL", "EDITOR")
_USUAL_EDITORS: Final = ("nano", "vi")
_USUAL_PAGERS: Final = ("less", "more")


class NoProgram(HorsiesError):  # noqa: N818 - nothing is wrong with the text
    default_code = ErrorCode.CLI_INVALID_ARGS


def program(environ: Mapping[str, str], *, pager: bool) -> list[str]:
    """Return the command that the environment names, or a usual one. Raises NoProgram if none is installed."""
    names = ("PAGER",) if pager else _EDITOR
    for name in names:
        if text := environ.get(name, "").strip():
            try:
                command = shlex.split(text)
            except ValueError as error:
                raise NoProgram(f"${name} cannot be read: {error}") from error
            if shutil.which(command[0], path=environ.get("PATH")) is None:
                raise NoProgram(f"${name} names {command[0]}, which is not installed")
            return command
    usual = _USUAL_PAGERS if pager else _USUAL_EDITORS
    found = next((name for name in usual if shutil.which(name, path=environ.get("PATH"))), None)
    if found is None:
        raise NoProgram(f"neither {' nor '.join(usual)} is installed; set ${' or $'.join(names)} to a program")
    return [found]


def why_not_here(app: App[Any]) -> str | None:
    """Return why no program can be opened, or None. A console in a browser has no terminal for it."""
    return "programs cannot be opened from a browser; y copies instead" if app.is_web else None


async def show(app: App[Any], name: str, text: str, environ: Mapping[str, str], *, pager: bool) -> None:
    """Open the text in a program and return when it has ended. The file is readable by the user only, and then removed.

    The event loop keeps running: the database's connections are kept, and an export continues. HorsiesError names
    what is missing or failed.
    """
    command = program(environ, pager=pager)
    directory = Path(tempfile.mkdtemp(prefix="horsies-"))
    try:
        path = directory / name
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
        # The batch stops timers from drawing into the program's screen; Textual stops only its input and output.
        with app.batch_update(), app.suspend(), _not_interrupted():
            process = await asyncio.create_subprocess_exec(*command, str(path), env=dict(environ))
            try:
                code = await process.wait()
            except asyncio.CancelledError:
                with suppress(ProcessLookupError):
                    process.terminate()
                await process.wait()
                raise
    except SuspendNotSupported as error:
        raise NoProgram("this terminal cannot be suspended for another program; y copies instead") from error
    except OSError as error:
        raise NoProgram(f"cannot run {command[0]}: {os.strerror(error.errno or 0)}") from error
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    if code:
        raise NoProgram(f"{command[0]} exited with code {code}")


@contextmanager
def _not_interrupted() -> Iterator[None]:
    """Ignore ctrl+c, which is meant for the program. A handler is used because the program would inherit SIG_IGN."""
    before = signal.getsignal(signal.SIGINT)
    signal.signal(signal.SIGINT, lambda _number, _frame: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
