"""The acquisition and release of an embedded server by a process."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from horsies.store.embedded.place import START_TIMEOUT_S, EmbeddedPlace, is_ready, ready_postmaster, unusable
from horsies.store.embedded.trusted_paths import EmbeddedError, FileLock

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
                    raise _busy(place, "is starting it")
                if not users.shared_within(_TIMEOUT_S):
                    raise _busy(place, "is stopping it")
                _ensure_kept(place)
            return EmbeddedServer(place, users, _url(place))
        except BaseException:
            users.close()
            raise
    except OSError as error:
        raise unusable(place.root, error) from error


def _url(place: EmbeddedPlace) -> str:
    """Return the URL at which the server listens; the process that started it may use another temporary directory."""
    found = ready_postmaster(place)
    return place.url if found is None else place.url_by(found.sockets, found.port)


def _ensure_kept(place: EmbeddedPlace) -> None:
    """Start a keeper, or wait for the running keeper, whose starter may have been killed while it waited."""
    deadline = time.monotonic() + _TIMEOUT_S
    with FileLock(place.keeper_lock) as lock:
        while not lock.try_exclusive():
            if is_ready(place):
                return
            if time.monotonic() > deadline:
                raise _busy(place, "keeps it from getting ready")
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
        f"another process {doing} in {place.root} and has not finished after {_TIMEOUT_S:.0f} s",
        notes=place.last_words(),
        help_text=f"read {place.log}, and look for processes that name {place.root}: pgrep -af {place.root}",
    )
