"""Directories, files and locks of an embedded server that no other account can replace.

Another account that may write one part of a path controls everything below it: a symbolic link in place of `server.log`
makes root write to any file. So the path is checked from `/` downwards: other accounts can no longer change a part that
passed the check. Files are opened relative to a handle of their directory, never through a link.
"""

from __future__ import annotations

import errno
import fcntl
import grp
import os
import pwd
import stat
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from horsies.domain.errors import ErrorCode, HorsiesError

if TYPE_CHECKING:
    from typing import Self

_ROOT: Final = 0
_MAX_LINKS: Final = 40  # as Linux
OTHER_SERVER: Final = "name a PostgreSQL server with --database-url or HORSIES_DATABASE_URL"
"""The help that always holds: a server of its own instead of the embedded one."""
_REMEDY: Final = (
    "point HORSIES_HOME, or the URL, to a directory that only you can write, such as one below your home,\n"
    f"or {OTHER_SERVER}"
)


class EmbeddedError(HorsiesError):
    """The embedded server cannot be used; the help says what to change."""

    default_code = ErrorCode.BROKER_INIT_FAILED


def trusted_directory(path: Path, *, make: bool = False) -> Path:
    """Return the directory of this absolute path without links; EmbeddedError if another account could replace it.

    `make` creates what is missing, for this account alone. Root's directories can be entered by all, because its server
    runs as another user. The last directory must not be shared either, as /tmp is.
    """
    here = Path("/")
    ahead = [*reversed(path.parts[1:])]
    links = 0
    shared = _require_trusted(here, os.lstat(here), in_shared=False)
    while ahead:
        name = ahead.pop()
        if name == "..":
            here = here.parent
            shared = _require_trusted(here, os.lstat(here), in_shared=False)
            continue
        entry = here / name
        found = _found(entry, make=make)
        if stat.S_ISLNK(found.st_mode):
            links += 1
            if links > _MAX_LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
            if shared:
                _require_owner(entry, found, _own_accounts())
            target = entry.readlink()
            ahead += reversed(target.parts[1:] if target.is_absolute() else target.parts)
            if target.is_absolute():
                here = Path("/")
                shared = _require_trusted(here, os.lstat(here), in_shared=False)
            continue
        if not stat.S_ISDIR(found.st_mode):
            raise OSError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(entry))
        shared = _require_trusted(entry, found, in_shared=shared)
        here = entry
    if shared:
        raise _refused(f"other accounts may create files in {here}", f"write a directory below {here}, or {_REMEDY}")
    return here


def open_file(path: Path, flags: int) -> int:
    """Open a file in a trusted directory, made for this account alone if the flags say so; links are refused."""
    directory = trusted_directory(path.parent)
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fd = os.open(path.name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=handle)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise _not_ours(path, "is a symbolic link") from error
        error.filename = str(path)
        raise
    finally:
        os.close(handle)
    found = os.fstat(fd)
    if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or found.st_nlink != 1:
        os.close(fd)
        raise _not_ours(path, "is not a file of this account alone")
    return fd


def owner_name(path: Path) -> str:
    return _account(path.lstat().st_uid)


def _found(entry: Path, *, make: bool) -> os.stat_result:
    """Return what exists there; create it if it is missing, with its mode set, which a umask may have narrowed."""
    try:
        return os.lstat(entry)
    except FileNotFoundError:
        if not make:
            raise
    mode = 0o755 if os.geteuid() == _ROOT else 0o700
    try:
        entry.mkdir(mode)
    except FileExistsError:  # another process has created it; the caller checks its owner
        return os.lstat(entry)
    found = os.lstat(entry)
    if stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and stat.S_IMODE(found.st_mode) != mode:
        entry.chmod(mode)
    return os.lstat(entry)


def _require_trusted(directory: Path, found: os.stat_result, *, in_shared: bool) -> bool:
    """Return whether other accounts may add entries here without touching ours: a sticky directory such as /tmp.

    In such a directory an entry of any other account is refused. Elsewhere the owner of `/` is trusted like root,
    because root may appear under that account in a user namespace.
    """
    accounts = _own_accounts()
    _require_owner(directory, found, accounts if in_shared else accounts | {os.lstat("/").st_uid})
    writers = _writers(found)
    if writers and not found.st_mode & stat.S_ISVTX:
        raise _refused(
            f"{writers} may replace files in {directory}", f"if only you use it: chmod go-w {directory};\n{_REMEDY}"
        )
    return writers is not None


def _require_owner(path: Path, found: os.stat_result, accounts: set[int]) -> None:
    if found.st_uid not in accounts:
        raise _refused(f"{path} belongs to {_account(found.st_uid)}, who may replace the files in it", _REMEDY)


def _own_accounts() -> set[int]:
    return {_ROOT, os.geteuid()}


def _writers(found: os.stat_result) -> str | None:
    """Return who may write it except its owner."""
    if found.st_mode & stat.S_IWOTH:
        return "every account"
    if found.st_mode & stat.S_IWGRP and not _is_private(found.st_gid):
        return f"group {_group(found.st_gid)}"
    return None


def _is_private(gid: int) -> bool:
    """Return whether the group has no other members than root and this account: many systems give each user a group.

    Members of group 0 are trusted like root: some container platforms run each program in it under a random account.
    """
    if gid == _ROOT:
        return True
    own = _own_accounts()
    try:
        members = grp.getgrgid(gid).gr_mem
    except KeyError:
        members = []
    others = (entry for entry in pwd.getpwall() if entry.pw_uid not in own)
    return not any(entry.pw_gid == gid or entry.pw_name in members for entry in others)


def _group(gid: int) -> str:
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)


def _account(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:  # an account of another machine or container
        return f"user {uid}"


def _refused(reason: str, help_text: str) -> EmbeddedError:
    return EmbeddedError(f"the embedded PostgreSQL cannot be used there: {reason}", help_text=help_text)


def _not_ours(path: Path, reason: str) -> EmbeddedError:
    return _refused(f"{path} {reason}", f"inspect and remove it, or {_REMEDY}")


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
        return self._within(fcntl.LOCK_EX, 0)

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
        while True:
            try:
                fcntl.flock(self.fileno(), mode | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    return False
            else:
                return True
            time.sleep(_POLL_S)
