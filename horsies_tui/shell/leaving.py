"""Ends the console on a signal, and when its terminal is lost."""

from __future__ import annotations

import os
import signal
import sys
import termios
import threading
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable
    from types import FrameType

SIGNALS: Final = (signal.SIGTERM, signal.SIGHUP)
GRACE_S: Final = 2.0
"""Time for the event loop to end after a signal. A blocked write to a lost terminal would never end."""

_RESTORE: Final = (
    b"\x1b[?2004l\x1b[?7h\x1b[?1000l\x1b[?1003l\x1b[?1015l\x1b[?1006l\x1b[<u\x1b[?1049l\x1b[?25h\x1b[?1004l"
)
"""The sequences that Textual writes at its exit: paste and mouse reports off, main screen, cursor."""


class Leaving:
    """Ends the console. Created before the terminal is changed; `watch` is called when the application runs."""

    def __init__(self) -> None:
        terminal = sys.__stdin__ is not None and sys.__stdin__.isatty()
        self._found = termios.tcgetattr(sys.__stdin__.fileno()) if terminal and sys.__stdin__ is not None else None
        self._last: Callable[[], str] = str
        self.signal: signal.Signals | None = None

    def watch(
        self, loop: asyncio.AbstractEventLoop, leave: Callable[[], object], *, last: Callable[[], str] = str
    ) -> None:
        """Call `leave` on the loop at a signal, and end the process when the terminal is lost.

        `last` returns the bytes that must be written to the terminal in addition to Textual's.
        """
        self._last = last

        def told(number: int, _frame: FrameType | None) -> None:
            if self.signal is not None:
                self.at_once(number)
            self.signal = signal.Signals(number)
            # Not a handler of the event loop, which may itself be blocked by the terminal.
            timer = threading.Timer(GRACE_S, self.at_once, (number,))
            timer.daemon = True
            timer.start()
            loop.call_soon_threadsafe(leave)

        for number in SIGNALS:
            signal.signal(number, told)
        threading.excepthook = self._thread_ended

    def _thread_ended(self, ended: threading.ExceptHookArgs) -> None:
        """Exit if Textual's writing thread has ended; otherwise its queue fills up and the event loop hangs."""
        if isinstance(ended.exc_value, OSError):
            # After a signal, `at_once` may be running; it makes the terminal non-blocking, so a waiting write fails.
            self.at_once(self.signal or signal.SIGHUP)
        threading.__excepthook__(ended)

    def at_once(self, number: int) -> None:
        """Restore the terminal, if it still exists, and exit."""
        if self._found is not None:
            self._restore(self._found)
        os._exit(128 + number)

    def _restore(self, found: list[Any]) -> None:
        terminal = sys.__stderr__.fileno() if sys.__stderr__ is not None else 2
        try:
            termios.tcsetattr(terminal, termios.TCSANOW, found)
            os.set_blocking(terminal, False)
            os.write(terminal, self._last().encode() + _RESTORE)
        except (OSError, termios.error):
            return  # the terminal is lost
