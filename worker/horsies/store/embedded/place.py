"""The directories of an embedded server, and the accounts that may use it there."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import quote

from horsies.config.url import embedded_home
from horsies.store.embedded.trusted_paths import OTHER_SERVER, EmbeddedError, FileLock, owner_name, trusted_directory

ROLE = DATABASE = "horsies"
_MAX_SOCKET_PATH = 103  # bytes that fit sockaddr_un on macOS; Linux allows four more
NO_SPACE = "No space left on device"
PORT = 5432  # only part of the socket's name
SOCKET = f".s.PGSQL.{PORT}"


class EmbeddedPlace:
    """One directory with everything that belongs to one embedded server."""

    def __init__(self, directory: Path) -> None:
        self.given = directory.absolute()
        """The directory as the user named it; a symbolic link in the path may belong to another account."""
        self.root = root = Path(os.path.realpath(directory))
        """The resolved directory, so that a server started through a symbolic link is recognised by its real name."""
        self.data = root / "data"
        self.half_made_data = root / "data.new"
        """The directory that initdb writes; its rename to `data` completes the cluster."""
        self.binaries = root / "binaries"
        self.log = root / "server.log"
        self.start_lock = root / "start.lock"
        self.users_lock = root / "users.lock"
        self.keeper_lock = root / "keeper.lock"
        self.far_sockets = root / "sockets"
        """A link to the socket directory in the temporary directory, whose name cannot be guessed before it is made."""

    @property
    def sockets(self) -> Path:
        """The socket's directory: next to the data, or in the temporary directory if that path is too long.

        A comma would split it in two for PostgreSQL and for its clients.
        """
        beside = self.root / "run"
        if len(os.fsencode(beside / SOCKET)) <= _MAX_SOCKET_PATH and "," not in str(beside):
            return beside
        try:
            return self.far_sockets.readlink()
        except FileNotFoundError:
            return self.far_sockets

    @property
    def url(self) -> str:
        return self.url_by(str(self.sockets), PORT)

    def url_by(self, sockets: str, port: int) -> str:
        """Return the URL for these sockets, with an explicit port, because PGPORT would apply otherwise."""
        return f"postgresql://{ROLE}@/{DATABASE}?host={quote(sockets, safe='/')}&port={port}"

    def last_words(self) -> list[str]:
        """Return the end of the server's log as one note; none if there is no log to read."""
        try:
            lines = self.log.read_text(errors="replace").splitlines()
        except OSError:
            return []
        return ["\n".join(lines[-6:])] if lines else []

    def prepare(self) -> None:
        """Create the directory, private to its owner; refuse one whose content other accounts may change."""
        try:
            if trusted_directory(self.given, make=True) != self.root:
                raise EmbeddedError(
                    f"the symbolic links of {self.given} have changed",
                    help_text="try again, or name the directory itself",
                )
            FileLock(self.users_lock).close()
        except OSError as error:
            raise unusable(self.root, error) from error


def default_place() -> EmbeddedPlace:
    """Return the place of the server that is used if no URL is given."""
    return EmbeddedPlace(embedded_home() / "postgres")


def unusable(directory: Path, error: OSError) -> EmbeddedError:
    """Explain why the operating system refuses this directory."""
    if error.errno == errno.ENOSPC or NO_SPACE in str(
        error
    ):  # shutil.Error combines several errors into one text and has no errno
        return disk_full("cannot use the embedded PostgreSQL", directory)
    reason = os.strerror(error.errno) if error.errno else str(error)
    help_text = "free some space or correct the path, or point HORSIES_HOME to another directory"
    if isinstance(error, PermissionError):
        refusing = Path(error.filename) if isinstance(error.filename, str) else directory
        help_text = f"{_who_refuses(refusing)}; point HORSIES_HOME to a directory that you may write"
    return EmbeddedError(
        f"cannot use {directory} for the embedded PostgreSQL: {reason}", help_text=f"{help_text},\nor {OTHER_SERVER}"
    )


def disk_full(what: str, directory: Path) -> EmbeddedError:
    return EmbeddedError(
        f"{what}: the disk that holds {directory} is full",
        help_text="free some space (a new cluster needs about 40 MB), or point HORSIES_HOME to another disk",
    )


def _who_refuses(path: Path) -> str:
    """Return which existing part of the path is not writable, and its owner."""
    for part in (path, *path.parents):
        with suppress(OSError):
            mine = part.lstat().st_uid == os.geteuid()
            return f"{part} cannot be written" if mine else f"{part} belongs to {owner_name(part)}"
    return f"{path} cannot be reached"


START_TIMEOUT_S = 60.0  # crash recovery of a large directory takes time


@dataclass(frozen=True, slots=True)
class Postmaster:
    """A server that accepts connections, and its address."""

    pid: int
    sockets: str
    port: int


def ready_postmaster(place: EmbeddedPlace) -> Postmaster | None:
    """Return the server once it accepts connections. Its pid is checked: after a power cut the file is old."""
    try:
        lines = (place.data / "postmaster.pid").read_text().split("\n")
        found = Postmaster(int(lines[0]), lines[4], int(lines[3]))
        state = lines[7].strip()
    except (FileNotFoundError, IndexError, ValueError):  # missing, or only half written so far
        return None
    return found if state == "ready" and _lives(found.pid) else None


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True  # it runs under another account
    except (ProcessLookupError, OverflowError):
        return False
    return True


_MEMORY: Final = Path("/dev/shm")  # noqa: S108 - the system's memory: a server starts there in 0.4 s, on a busy disk in 4
_ENOUGH_MEMORY_BYTES: Final = 2_000_000_000
_STARTING_S: Final = 120.0


def fast_place() -> Path:
    """Return a directory in memory, if there is enough."""
    if _MEMORY.is_dir() and shutil.disk_usage(_MEMORY).free > _ENOUGH_MEMORY_BYTES:
        return _MEMORY
    return Path(tempfile.gettempdir())


def make_directory(parent: Path, prefix: str) -> Path:
    """Create an empty directory for a server, and remove the directories that killed processes have left there."""
    remove_left_behind(parent, prefix)
    directory = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
    if os.geteuid() == 0:
        directory.chmod(0o755)  # root's server runs as another user
    return directory


def remove_left_behind(parent: Path, prefix: str) -> None:
    """Remove the directories below `parent` whose locks are free and that are too old to be under creation now."""
    for directory in parent.glob(f"{prefix}*"):
        place = EmbeddedPlace(directory)
        try:
            stat = directory.lstat()
            if stat.st_uid != os.geteuid() or stat.st_mtime > time.time() - _STARTING_S:
                continue
            with FileLock(place.users_lock) as users, FileLock(place.keeper_lock) as keeper:
                if users.try_exclusive() and keeper.try_exclusive():
                    shutil.rmtree(directory, ignore_errors=True)
        except (OSError, EmbeddedError):  # its owner is removing it at this moment
            continue
