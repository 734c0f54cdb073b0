"""The directory in which one demo has everything it makes."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from horsies.store.embedded import Place
from horsies.store.embedded.locks import FileLock
from horsies.store.embedded.temporary import fast_place, left_behind

if TYPE_CHECKING:
    from horsies.store.embedded import EmbeddedServer

PREFIX: Final = "horsies-demo-"
KEPT: Final = "horsies-kept-demo-"  # does not begin with the other one: the next demo removes what killed ones left


def make(*, keep: bool) -> Path:
    """An empty directory; those that killed demos have left are removed by the way."""
    disk = Path(tempfile.gettempdir())
    parent = disk if keep or "TMPDIR" in os.environ else fast_place()
    for place in {disk, parent}:
        for left in left_behind(place, PREFIX):
            remove(left)
    directory = Path(tempfile.mkdtemp(prefix=KEPT if keep else PREFIX, dir=parent))
    if os.geteuid() == 0:
        directory.chmod(0o755)  # root's server runs as another user
    return directory


def url_of(directory: Path) -> str:
    return f"embedded://{directory}"


def vacate(server: EmbeddedServer, *, keep: bool) -> None:
    """Let go of the server, wait until nobody else uses it either, and remove the files."""
    server.release()
    with FileLock(server.place.keeper_lock) as keeper:
        keeper.wait_exclusive()
    if not keep:
        remove(server.place.root)


def clear(directory: Path, patience_s: float) -> bool:
    """Remove what somebody has left there who was killed; False where the server is still used after so long."""
    place = Place(directory)
    if directory.exists():
        with FileLock(place.keeper_lock) as keeper:
            if not keeper.exclusive_within(patience_s):
                return False
        remove(directory)
    return True


def remove(directory: Path) -> None:
    shutil.rmtree(directory, ignore_errors=True)
