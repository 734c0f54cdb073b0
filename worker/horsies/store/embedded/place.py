"""Where an embedded server stores its files, and which accounts may use it there."""

from __future__ import annotations

import errno
import hashlib
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from platformdirs import user_data_path

from horsies.domain.errors import ErrorCode, HorsiesError
from horsies.store.embedded.locks import FileLock

ROOT_HOME = Path("/var/lib/horsies")
ROLE = DATABASE = "horsies"
_LONGEST_SOCKET_PATH = 103  # bytes that fit sockaddr_un on macOS; Linux allows four more
NO_SPACE = "No space left on device"
PORT = 5432  # only part of the socket's name
SOCKET = f".s.PGSQL.{PORT}"


class EmbeddedError(HorsiesError):
    """The embedded server cannot be used; the help says what to change."""

    default_code = ErrorCode.BROKER_INIT_FAILED


@dataclass(frozen=True, slots=True)
class Place:
    """One directory with everything that belongs to one embedded server."""

    root: Path

    def __post_init__(self) -> None:
        """One spelling for one directory: a server started through a symbolic link is recognised by its real name."""
        object.__setattr__(self, "root", Path(os.path.realpath(self.root)))

    @property
    def data(self) -> Path:
        return self.root / "data"

    @property
    def half_made_data(self) -> Path:
        """initdb writes here; the rename to `data` creates the cluster."""
        return self.root / "data.new"

    @property
    def binaries(self) -> Path:
        return self.root / "binaries"

    @property
    def log(self) -> Path:
        return self.root / "server.log"

    @property
    def start_lock(self) -> Path:
        return self.root / "start.lock"

    @property
    def users_lock(self) -> Path:
        return self.root / "users.lock"

    @property
    def keeper_lock(self) -> Path:
        return self.root / "keeper.lock"

    @property
    def sockets(self) -> Path:
        """The socket's directory: beside the data, or in the temporary directory if that path is too long.

        A comma would split it in two for PostgreSQL and for its clients.
        """
        beside = self.root / "run"
        if len(os.fsencode(beside / SOCKET)) <= _LONGEST_SOCKET_PATH and "," not in str(beside):
            return beside
        name = hashlib.sha256(os.fsencode(self.root)).hexdigest()[:12]
        return Path(tempfile.gettempdir()) / f"horsies-{name}"

    @property
    def url(self) -> str:
        return self.url_by(str(self.sockets), PORT)

    def url_by(self, sockets: str, port: int) -> str:
        """The port is explicit, because PGPORT would apply otherwise."""
        return f"postgresql://{ROLE}@/{DATABASE}?host={quote(sockets, safe='/')}&port={port}"

    def last_words(self) -> list[str]:
        """The end of the server's log as one note; none if there is no log to read."""
        try:
            lines = self.log.read_text(errors="replace").splitlines()
        except OSError:
            return []
        return ["\n".join(lines[-6:])] if lines else []

    def prepare(self) -> None:
        """Create the directory, private to its owner if it is new; refuse it if this account may not use it."""
        try:
            _make_directories(self.root)
            FileLock(self.users_lock).close()
        except OSError as error:
            raise unusable(self.root, error) from error


def default_place() -> Place:
    """HORSIES_HOME, or the user's data directory. Root's server runs as another user, so not below root's home."""
    if home := os.environ.get("HORSIES_HOME"):
        return Place(Path(home).expanduser().absolute() / "postgres")
    base = ROOT_HOME if os.geteuid() == 0 else user_data_path("horsies")
    return Place(base / "postgres")


def _make_directories(directory: Path) -> None:
    """Each missing directory with its mode set, which a umask may narrow: root's server enters as another user."""
    if directory.is_dir():
        return
    _make_directories(directory.parent)
    try:
        directory.mkdir()
    except FileExistsError:
        if directory.is_dir():  # another process was faster
            return
        raise
    directory.chmod(0o755 if os.geteuid() == 0 else 0o700)


def unusable(directory: Path, error: OSError) -> EmbeddedError:
    """The reason why the operating system refuses this directory, as an error message."""
    if error.errno == errno.ENOSPC or NO_SPACE in str(error):  # shutil.Error has no errno, only the text of many
        return disk_full("cannot use the embedded PostgreSQL", directory)
    reason = os.strerror(error.errno) if error.errno else str(error)
    found = EmbeddedError(f"cannot use {directory} for the embedded PostgreSQL: {reason}")
    if isinstance(error, PermissionError):
        refusing = Path(error.filename) if isinstance(error.filename, str) else directory
        return found.with_help(
            f"{_who_refuses(refusing)}; point HORSIES_HOME to a directory that you may write,\n"
            "or name a PostgreSQL server with --database-url or HORSIES_DATABASE_URL"
        )
    return found.with_help(
        "free some space or mend the path, or point HORSIES_HOME to another directory,\n"
        "or name a PostgreSQL server with --database-url or HORSIES_DATABASE_URL"
    )


def disk_full(what: str, directory: Path) -> EmbeddedError:
    return EmbeddedError(f"{what}: the disk that holds {directory} is full").with_help(
        "free some space (a new cluster needs about 40 MB), or point HORSIES_HOME to another disk"
    )


def _who_refuses(path: Path) -> str:
    """The nearest part of the path that exists, and its owner."""
    for part in (path, *path.parents):
        try:
            uid = part.lstat().st_uid
        except OSError:
            continue
        return f"{part} cannot be written" if uid == os.geteuid() else f"{part} belongs to {owner_name(part)}"
    return f"{path} cannot be reached"


def owner_name(path: Path) -> str:
    try:
        return path.owner()
    except KeyError:  # an account of another machine or container
        return f"user {path.lstat().st_uid}"
