"""A real PostgreSQL inside the user's data directory, for development, demos and tests.

Each process that uses the server holds a shared lock on `users.lock`; the kernel releases it however the process ends.
One *keeper* process starts the server, waits for the exclusive lock, which it gets when the last user has ended, and
stops the server. No list of process ids is kept, so a kill cannot leave a wrong one behind.

The wheel's `get_server` is not used: it stops the server in an atexit hook, so after kill -9 of its last user it
runs on (seen 12 s later, without end), and for root it opens each directory above the data to all accounts (a private
one went from 0700 to 0755).
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from horsies.store.embedded.place import (
    START_TIMEOUT_S,
    EmbeddedPlace as EmbeddedPlace,
    default_place as default_place,
    ready_postmaster,
    unusable,
)
from horsies.store.embedded.trusted_paths import EmbeddedError as EmbeddedError, FileLock

if TYPE_CHECKING:
    from typing import Self

_TIMEOUT_S = START_TIMEOUT_S + 5


@dataclass(frozen=True, slots=True)
class EmbeddedServer:
    """A running server that is not stopped while this is held; a context manager."""

    place: EmbeddedPlace
    users: FileLock
    url: str

    def release(self) -> None:
        """Release the server; it stops when no other process holds it. The end of the process releases it, too."""
        self.users.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def acquire(place: EmbeddedPlace) -> EmbeddedServer:
    """Hold the server of `place`, started if necessary. Blocks for half a second on a start, 2 s on the very first."""
    place.prepare()
    try:
        users = FileLock(place.users_lock)
        try:
            with FileLock(place.start_lock) as starting:
                if not starting.exclusive_within(_TIMEOUT_S):
                    raise _busy(place, "starting")
                if not users.shared_within(_TIMEOUT_S):
                    raise _busy(place, "stopping")
                _ensure_kept(place)
            # The process that started the server may use another temporary directory for its socket.
            found = ready_postmaster(place)
            url = place.url if found is None else place.url_by(found.sockets, found.port)
            return EmbeddedServer(place, users, url)
        except BaseException:
            users.close()
            raise
    except OSError as error:
        raise unusable(place.root, error) from error


def _ensure_kept(place: EmbeddedPlace) -> None:
    """Start a keeper, or wait for the running keeper, whose starter may have been killed while it waited."""
    deadline = time.monotonic() + _TIMEOUT_S
    with FileLock(place.keeper_lock) as lock:
        while not lock.try_exclusive():
            if ready_postmaster(place) is not None:
                return
            if time.monotonic() > deadline:
                raise _busy(place, "starting")
            time.sleep(0.02)
        _start_keeper(place, lock)


def _start_keeper(place: EmbeddedPlace, lock: FileLock) -> None:
    """Start a keeper, which inherits the lock, so that the lock is never free while a keeper is starting."""
    command = [sys.executable, "-m", "horsies.store.embedded.keeper", str(place.root), str(lock.fileno())]
    keeper = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd="/",
        start_new_session=True,
        pass_fds=[lock.fileno()],
    )
    lock.close()
    assert keeper.stdout is not None
    assert keeper.stderr is not None
    with keeper:
        line = keeper.stdout.readline()
        if not line:
            last_words = keeper.stderr.read().decode(errors="replace").strip().splitlines()[-1:]
            raise EmbeddedError("the embedded PostgreSQL could not be started", notes=last_words)
    answer = json.loads(line)
    if answer:
        raise EmbeddedError(answer["message"], notes=answer["notes"], help_text=answer["help"])


def _busy(place: EmbeddedPlace, doing: str) -> EmbeddedError:
    return EmbeddedError(
        f"another process has been {doing} the server in {place.root} for {_TIMEOUT_S:.0f} s",
        notes=place.last_words(),
        help_text=f"read {place.log}, and look for processes that name {place.root}: pgrep -af {place.root}",
    )
