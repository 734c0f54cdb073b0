"""Directories for servers without a keeper, and those whose processes were killed before they could remove them."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from horsies.store.embedded.locks import FileLock
from horsies.store.embedded.place import EmbeddedPlace
from horsies.store.embedded.trusted_paths import EmbeddedError

if TYPE_CHECKING:
    from collections.abc import Iterable

_MEMORY: Final = Path("/dev/shm")  # noqa: S108 - the system's memory: a server starts there in 0.4 s, on a busy disk in 4
_ENOUGH_MEMORY_BYTES: Final = 2_000_000_000
_STARTING_S: Final = 120.0


def fast_place() -> Path:
    """Return a directory in memory, if there is enough."""
    if _MEMORY.is_dir() and shutil.disk_usage(_MEMORY).free > _ENOUGH_MEMORY_BYTES:
        return _MEMORY
    return Path(tempfile.gettempdir())


def make_directory(parent: Path, prefix: str) -> Path:
    """An empty directory for a server; those that killed processes have left there are removed."""
    remove_left_behind(parent, prefix)
    directory = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
    if os.geteuid() == 0:
        directory.chmod(0o755)  # root's server runs as another user
    return directory


def remove_left_behind(parent: Path, prefix: str) -> None:
    for directory in _left_behind(parent, prefix):
        shutil.rmtree(directory, ignore_errors=True)


def _left_behind(parent: Path, prefix: str) -> Iterable[Path]:
    """Those below `parent` whose locks are free, and that are too old to be just under creation."""
    for directory in parent.glob(f"{prefix}*"):
        place = EmbeddedPlace(directory)
        try:
            stat = directory.lstat()
            if stat.st_uid != os.geteuid() or stat.st_mtime > time.time() - _STARTING_S:
                continue
            with FileLock(place.users_lock) as users, FileLock(place.keeper_lock) as keeper:
                if users.try_exclusive() and keeper.try_exclusive():
                    yield directory
        except (OSError, EmbeddedError):  # its owner is removing it at this moment
            continue
