"""File locks that the kernel releases when their holder dies."""

from __future__ import annotations

import fcntl
import os
import time
from typing import TYPE_CHECKING

from horsies.store.embedded.trusted_paths import open_file

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Self

_POLL_S = 0.02


class FileLock:
    """An flock on one file. It belongs to this open file: closing it, or the death of the process, releases it."""

    def __init__(self, path: Path, fd: int | None = None) -> None:
        self.path = path
        self._fd: int | None = open_file(path, os.O_RDWR | os.O_CREAT) if fd is None else fd

    @classmethod
    def handed_over(cls, path: Path, fd: int) -> Self:
        """Return a lock that the parent process acquired and passed to this process.

        It gets the lowest free descriptor: the kernel closes a killed process's files in that order, so this lock is
        released before any that is opened later.
        """
        lowest, other = sorted((fd, fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3)))
        os.close(other)
        os.set_inheritable(lowest, False)
        return cls(path, lowest)

    def fileno(self) -> int:
        if self._fd is None:
            raise ValueError(f"the lock on {self.path} is closed")
        return self._fd

    def try_exclusive(self) -> bool:
        return self._try(fcntl.LOCK_EX)

    def wait_exclusive(self) -> None:
        """Block in the kernel until no other process holds the lock in any mode."""
        fcntl.flock(self.fileno(), fcntl.LOCK_EX)

    def exclusive_within(self, seconds: float) -> bool:
        return self._within(fcntl.LOCK_EX, seconds)

    def shared_within(self, seconds: float) -> bool:
        return self._within(fcntl.LOCK_SH, seconds)

    def unlock(self) -> None:
        """Release the lock for all processes that share this open file, including forks of its first owner."""
        fcntl.flock(self.fileno(), fcntl.LOCK_UN)
        self.close()

    def close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _within(self, mode: int, seconds: float) -> bool:
        """Poll for the lock: flock has no timeout, and signals such as SIGALRM belong to the application."""
        deadline = time.monotonic() + seconds
        while not self._try(mode):
            if time.monotonic() > deadline:
                return False
            time.sleep(_POLL_S)
        return True

    def _try(self, mode: int) -> bool:
        try:
            fcntl.flock(self.fileno(), mode | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
