"""Processes that user code forks off a child: they must not act for the child, and SIGTERM must end them."""

from __future__ import annotations

import os
import signal
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import socket
    from collections.abc import Sequence


class ForkGuard(threading.local):
    """Blocks SIGTERM during a fork; several threads may fork at once.

    A SIGTERM that arrives before the new process has removed our handler is lost: Python forgets signals that are
    pending at a fork, and our handler ignores those that the parent did not send.
    """

    def __init__(self) -> None:
        self.mask: set[signal.Signals | int] = set()

    def install(self, sockets: Sequence[socket.socket]) -> None:
        def leave() -> None:
            for each in sockets:
                each.close()
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            self._restore()

        os.register_at_fork(before=self._block, after_in_parent=self._restore, after_in_child=leave)

    def _block(self) -> None:
        self.mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})

    def _restore(self) -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, self.mask)
