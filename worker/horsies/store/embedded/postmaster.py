"""The state of a running server according to its pid file."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from horsies.store.embedded.place import EmbeddedPlace

START_TIMEOUT_S = 60.0  # crash recovery of a large directory takes time


@dataclass(frozen=True, slots=True)
class Postmaster:
    """A server that accepts connections, and its address."""

    pid: int
    sockets: str
    port: int


def ready_postmaster(place: EmbeddedPlace) -> Postmaster | None:
    """The server of `place` once it accepts connections. Its pid is checked: after a power cut the file is old."""
    try:
        lines = (place.data / "postmaster.pid").read_text().split("\n")
        found = Postmaster(int(lines[0]), lines[4], int(lines[3]))
        state = lines[7].strip()
    except (FileNotFoundError, IndexError, ValueError):  # missing, or only half written so far
        return None
    return found if state == "ready" and _lives(found.pid) else None


def is_ready(place: EmbeddedPlace, pid: int | None = None) -> bool:
    """Return whether the server (this one, if a pid is given) accepts connections."""
    found = ready_postmaster(place)
    return found is not None and pid in (None, found.pid)


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True  # it runs under another account
    except (ProcessLookupError, OverflowError):
        return False
    return True
