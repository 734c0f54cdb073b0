"""The embedded PostgreSQL of one test process, in a directory of its own."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from horsies.store.embedded import Place, acquire
from horsies.store.embedded.locks import FileLock

if TYPE_CHECKING:
    from collections.abc import Iterable

_PREFIX = "horsies-test-"
_MEMORY = Path("/dev/shm")  # noqa: S108 - the system's memory, where CREATE DATABASE takes 20 ms and not up to 280
_ENOUGH_MEMORY_BYTES = 2_000_000_000
_STARTING_S = 120.0
_STOPPING_S = 30.0


class TemporaryServer:
    """Runs until `remove`, or until this process has ended, however it ends."""

    def __init__(self) -> None:
        parent = _fast_place()
        for left in _left_behind(parent):
            shutil.rmtree(left, ignore_errors=True)
        self._directory = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
        if os.geteuid() == 0:
            self._directory.chmod(0o755)  # root's server runs as another user
        self._pid = os.getpid()
        self._held = acquire(Place(self._directory))
        self.url = self._held.url

    def remove(self) -> None:
        """Stop the server and remove its files; nothing in a forked process, which inherits this call."""
        if os.getpid() != self._pid:
            return
        self._held.release()
        with FileLock(self._held.place.keeper_lock) as keeper:
            keeper.exclusive_within(_STOPPING_S)
        shutil.rmtree(self._directory, ignore_errors=True)


def _fast_place() -> Path:
    if _MEMORY.is_dir() and shutil.disk_usage(_MEMORY).free > _ENOUGH_MEMORY_BYTES:
        return _MEMORY
    return Path(tempfile.gettempdir())


def _left_behind(parent: Path) -> Iterable[Path]:
    """Directories of processes that were killed: their locks are free, and they are too old to be just being made."""
    for directory in parent.glob(f"{_PREFIX}*"):
        place = Place(directory)
        try:
            stat = directory.lstat()
            if stat.st_uid != os.geteuid() or stat.st_mtime > time.time() - _STARTING_S:
                continue
            with FileLock(place.users_lock) as users, FileLock(place.keeper_lock) as keeper:
                if users.try_exclusive() and keeper.try_exclusive():
                    yield directory
        except OSError:  # its owner is removing it at this moment
            continue
