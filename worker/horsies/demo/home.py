"""The directory that contains everything of one demo."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from horsies.store.embedded import EmbeddedPlace
from horsies.store.embedded.place import fast_place, make_directory, remove_left_behind
from horsies.store.embedded.trusted_paths import FileLock

if TYPE_CHECKING:
    from horsies.store.embedded import EmbeddedServer

PREFIX: Final = "horsies-demo-"
KEPT: Final = "horsies-kept-demo-"  # not with the prefix above, by which the next demo removes directories


def make(*, keep: bool) -> Path:
    """An empty directory; those of killed demos are removed as well."""
    disk = Path(tempfile.gettempdir())
    parent = disk if keep or "TMPDIR" in os.environ else fast_place()
    for place in {disk, parent}:
        remove_left_behind(place, PREFIX)
    return make_directory(parent, KEPT if keep else PREFIX)


def url_of(directory: Path) -> str:
    return f"embedded://{directory}"


def vacate(server: EmbeddedServer, *, keep: bool) -> None:
    """Release the server, wait until no other process uses it either, and remove the files."""
    server.release()
    with FileLock(server.place.keeper_lock) as keeper:
        keeper.wait_exclusive()
    if not keep:
        remove(server.place.root)


def clear(directory: Path, patience_s: float) -> bool:
    """Remove the files of a killed demo; False if the server is still in use after this time."""
    place = EmbeddedPlace(directory)
    if directory.exists():
        with FileLock(place.keeper_lock) as keeper:
            if not keeper.exclusive_within(patience_s):
                return False
        remove(directory)
    return True


def remove(directory: Path) -> None:
    shutil.rmtree(directory, ignore_errors=True)
