"""The process that starts an embedded server, waits until its last user has ended, and stops it.

Run as `python -m horsies.store.embedded.keeper DIRECTORY LOCK`, where LOCK is the file descriptor of keeper.lock, which
the starter took and hands over. It answers on stdout with one line of JSON, `{}` when the server is ready or
`{"message": …, "help": …}`, and lives in a session of its own, so that ctrl+c in a terminal reaches the worker and not
the database below it.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from horsies.store.embedded.binaries import Programs, find_programs
from horsies.store.embedded.place import (
    DATABASE,
    NO_SPACE,
    PORT,
    ROLE,
    SOCKET,
    START_TIMEOUT_S,
    EmbeddedPlace,
    disk_full,
    ready_postmaster,
    unusable,
)
from horsies.store.embedded.trusted_paths import OTHER_SERVER, EmbeddedError, FileLock, open_file

if TYPE_CHECKING:
    from typing import BinaryIO

_LOG_LIMIT_BYTES = 5_000_000
_RESTART_PAUSE_S = 0.5
_MEMORY_RELEASE_TIMEOUT_S = 10.0  # processes of a killed server that run longer than this hang
_MEMORY_IN_USE = "pre-existing shared memory block"


def main() -> None:
    if os.fork():
        os._exit(0)  # the process that starts the keeper never has to reap it
    place = EmbeddedPlace(Path(sys.argv[1]))
    lock = FileLock.handed_over(place.keeper_lock, int(sys.argv[2]))
    try:
        programs, server = bring_up(place)
    except EmbeddedError as error:
        lock.unlock()  # first: the process that receives the failure may try again at once
        _answer(error)
        return
    _answer(None)
    with FileLock(place.users_lock) as users:
        keep(server, programs, place, users)
        lock.unlock()  # first: the next holder of users.lock must find no keeper


def bring_up(place: EmbeddedPlace) -> tuple[Programs, subprocess.Popen[bytes]]:
    """Bring up a server from any state of the directory; EmbeddedError if that fails."""
    try:
        programs = find_programs(place)
        make_cluster(programs, place)
        stop_orphan(place)
        return programs, start_server(programs, place)
    except OSError as error:
        raise unusable(place.root, error) from error
    except (psutil.Error, subprocess.SubprocessError, ValueError) as error:
        raise EmbeddedError(
            f"cannot start the embedded PostgreSQL in {place.root}: {type(error).__name__}: {error}",
            notes=place.last_words(),
            help_text=f"look for processes that name {place.root}: pgrep -af {place.root},\nor {OTHER_SERVER}",
        ) from error


def keep(server: subprocess.Popen[bytes], programs: Programs, place: EmbeddedPlace, users: FileLock) -> None:
    """Keep the server running until its last user has ended: if it dies before that, start it again."""
    last_user_gone = threading.Event()

    def wait_for_the_last() -> None:
        users.wait_exclusive()
        last_user_gone.set()

    threading.Thread(target=wait_for_the_last, daemon=True).start()
    while not last_user_gone.wait(_RESTART_PAUSE_S):
        if server.poll() is not None:
            try:
                server = start_server(programs, place)
            except (EmbeddedError, OSError) as error:
                _log(place, f"could not be restarted: {getattr(error, 'message', error)}")
    server.send_signal(signal.SIGINT)  # PostgreSQL's fast shutdown
    server.wait()


def make_cluster(programs: Programs, place: EmbeddedPlace) -> None:
    """Run initdb and create the database, all or nothing: a cluster exists once its directory has the final name."""
    if place.data.exists():
        return
    new = place.half_made_data
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir(mode=0o700)
    programs.own(new)
    made = programs.run(
        "initdb", "-D", str(new), "-U", ROLE, "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-instructions"
    )
    if made.returncode != 0:
        shutil.rmtree(new, ignore_errors=True)
        raise _explain("cannot create a PostgreSQL cluster", place, made.stdout)
    created = programs.run("postgres", "--single", "-D", str(new), "postgres", input=f"CREATE DATABASE {DATABASE}\n")
    if created.returncode != 0 or "ERROR" in created.stdout:
        shutil.rmtree(new, ignore_errors=True)
        raise _explain("cannot create the database in the new cluster", place, created.stdout)
    new.rename(place.data)


def stop_orphan(place: EmbeddedPlace) -> None:
    """Stop a server that outlived its keeper, and remove a pid file that names no process or another program.

    PostgreSQL refuses to start while the pid in the file is alive, even if it now belongs to another program.
    """
    pid_file = place.data / "postmaster.pid"
    try:
        process = psutil.Process(int(pid_file.read_text().split("\n", 1)[0]))
        ours = str(place.data) in process.cmdline()
    except FileNotFoundError:
        return
    except (ValueError, psutil.NoSuchProcess):
        ours = False
    if ours:
        process.send_signal(signal.SIGINT)
        process.wait(START_TIMEOUT_S)
    pid_file.unlink(missing_ok=True)


def start_server(programs: Programs, place: EmbeddedPlace) -> subprocess.Popen[bytes]:
    """Start PostgreSQL on a unix socket only and wait until it takes connections."""
    make_socket_directory(programs, place)
    deadline = time.monotonic() + _MEMORY_RELEASE_TIMEOUT_S
    while True:
        remove_sockets(place)
        with _open_log(place) as log:
            begin = log.tell()
            settings = {"unix_socket_directories": place.sockets, "listen_addresses": "", "port": PORT}
            options = (part for name, value in settings.items() for part in ("-c", f"{name}={value}"))
            server = programs.start(["-D", str(place.data), *options], log)
        if _comes_up(server, place):
            return server
        words = place.log.read_bytes()[begin:].decode(errors="replace")
        if _MEMORY_IN_USE not in words or time.monotonic() > deadline:
            raise _explain("PostgreSQL did not start", place, words)
        time.sleep(0.2)


def _comes_up(server: subprocess.Popen[bytes], place: EmbeddedPlace) -> bool:
    """Wait for the server; return True once it accepts connections, False if it ended instead."""
    deadline = time.monotonic() + START_TIMEOUT_S
    while (ready := ready_postmaster(place)) is None or ready.pid != server.pid:
        if server.poll() is not None:
            return False
        if time.monotonic() > deadline:
            server.send_signal(signal.SIGQUIT)
            raise EmbeddedError(f"PostgreSQL was not ready after {START_TIMEOUT_S:.0f} s", help_text=f"see {place.log}")
        time.sleep(0.01)
    return True


def make_socket_directory(programs: Programs, place: EmbeddedPlace) -> None:
    """Create a directory for the server's account only, because everyone who reaches the socket is a superuser.

    A directory of another account is refused.
    """
    directory = place.sockets
    if directory == place.far_sockets or not _is_private(directory, programs):
        if directory == place.root / "run":
            raise EmbeddedError(
                f"the socket directory {directory} is not a private directory of ours",
                help_text="inspect and remove it, or point HORSIES_HOME to another directory",
            )
        directory = Path(tempfile.mkdtemp(prefix="horsies-"))
        place.far_sockets.unlink(missing_ok=True)
        place.far_sockets.symlink_to(directory)
    programs.own(directory)


def _is_private(directory: Path, programs: Programs) -> bool:
    """Return whether the directory is for the server's account alone; create it if it is missing."""
    try:
        directory.mkdir(mode=0o700)
    except FileExistsError:
        found = directory.lstat()
        owners = (os.geteuid(), programs.identity().get("user"))
        return stat.S_ISDIR(found.st_mode) and found.st_uid in owners and not found.st_mode & 0o077
    except FileNotFoundError:  # the temporary directory of an earlier start
        return False
    return True


def remove_sockets(place: EmbeddedPlace) -> None:
    """Remove the sockets of a killed server: its pid may belong to another process now."""
    handle = os.open(place.sockets, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        for name in os.listdir(handle):  # noqa: PTH208 - pathlib has no handles
            if name.startswith(SOCKET):
                os.unlink(name, dir_fd=handle)
    finally:
        os.close(handle)


def _explain(what: str, place: EmbeddedPlace, output: str) -> EmbeddedError:
    """Return the error with its cause if that is known, otherwise with the last lines of the program's output."""
    if NO_SPACE in output:
        return disk_full(what, place.root)
    last_words = "\n".join(line for line in output.strip().splitlines()[-6:] if line.strip())
    more = f"the whole log is {place.log}; or {OTHER_SERVER}" if place.log.exists() else OTHER_SERVER
    return EmbeddedError(f"{what} in {place.root}", notes=[last_words] if last_words else [], help_text=more)


def _open_log(place: EmbeddedPlace) -> BinaryIO:
    """Open the log for appending, truncated if it is too large; private, because it contains statements with values."""
    fd = open_file(place.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    if os.fstat(fd).st_size > _LOG_LIMIT_BYTES:
        os.truncate(fd, 0)
    return os.fdopen(fd, "ab")


def _log(place: EmbeddedPlace, text: str) -> None:
    with suppress(OSError, EmbeddedError), _open_log(place) as log:  # a full disk must not end the keeper
        log.write(f"keeper {os.getpid()}: {text}\n".encode())


def _answer(error: EmbeddedError | None) -> None:
    """Report to the starter, then close the pipe."""
    words = {} if error is None else {"message": error.message, "help": error.help_text, "notes": error.notes}
    try:
        os.write(sys.stdout.fileno(), json.dumps(words).encode() + b"\n")
    except BrokenPipeError:
        return  # the starter died meanwhile: its lock is released too, and keep() will see that
    with Path(os.devnull).open("wb") as nowhere:
        os.dup2(nowhere.fileno(), sys.stdout.fileno())


if __name__ == "__main__":
    main()
