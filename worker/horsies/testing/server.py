"""The embedded PostgreSQL of one test process, in a directory of its own."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from horsies.store.embedded import Place, acquire
from horsies.store.embedded.locks import FileLock
from horsies.store.embedded.temporary import fast_place, left_behind

_PREFIX = "horsies-test-"
_STOPPING_S = 30.0


class TemporaryServer:
    """Runs until `remove`, or until this process has ended, however it ends."""

    def __init__(self) -> None:
        parent = fast_place()
        for left in left_behind(parent, _PREFIX):
            shutil.rmtree(left, ignore_errors=True)
        self._directory = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
        if os.geteuid() == 0:
            self._directory.chmod(0o755)  # root's server runs as another user
        self._pid = os.getpid()
        self._held = acquire(Place(self._directory))
        self.url = self._held.url

    def remove(self) -> None:
        """Stop the server and remove its files; does nothing in a forked process, which inherits this call."""
        if os.getpid() != self._pid:
            return
        self._held.release()
        with FileLock(self._held.place.keeper_lock) as keeper:
            keeper.exclusive_within(_STOPPING_S)
        shutil.rmtree(self._directory, ignore_errors=True)
