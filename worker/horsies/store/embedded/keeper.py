"""The process that starts an embedded server, waits until its last user is gone, and stops it.

Run as `python -m horsies.store.embedded.keeper DIRECTORY`. It answers on stdout with one line of JSON, `{}` when the
server is ready or `{"message": …, "help": …}`, and lives in a session of its own, so that ctrl+c in a terminal reaches
the worker and not the database below it.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import stat
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from horsies.store.embedded.binaries import Programs, find_programs
from horsies.store.embedded.locks import FileLock
from horsies.store.embedded.place import DATABASE, NO_SPACE, ROLE, EmbeddedError, Place, disk_full, unusable

if TYPE_CHECKING:
    import subprocess

START_TIMEOUT_S = 60.0  # crash recovery of a large directory takes its time
_LOG_LIMIT_BYTES = 5_000_000
_RESTART_PAUSE_S = 0.5


def main() -> None:
    if os.fork():
        os._exit(0)  # the starter has no child to reap, however long the keeper lives
    place = Place(Path(sys.argv[1]))
    held = FileLock(place.keeper_lock)  # opened before users.lock: a killed process's files close in this order
    if not held.try_exclusive():
        _answer(EmbeddedError("another keeper holds this directory"))
        return
    try:
        programs = find_programs(place)
        make_cluster(programs, place)
        stop_orphan(place)
        server = start_server(programs, place)
    except EmbeddedError as error:
        _answer(error)
        return
    except OSError as error:
        _answer(unusable(place.root, error))
        return
    _answer(None)
    with FileLock(place.users_lock) as users:
        keep(server, programs, place, users)
        held.close()  # first: whoever gets users.lock next must find no keeper


def keep(server: subprocess.Popen[bytes], programs: Programs, place: Place, users: FileLock) -> None:
    """Until the last user is gone: if the server dies before that, start it again."""
    last_user_gone = threading.Event()

    def wait_for_the_last() -> None:
        users.wait_exclusive()
        last_user_gone.set()

    threading.Thread(target=wait_for_the_last, daemon=True).start()
    while not last_user_gone.wait(_RESTART_PAUSE_S):
        if server.poll() is not None:
            try:
                server = start_server(programs, place)
            except EmbeddedError as error:
                _log(place, f"could not be restarted: {error.message}")
    server.send_signal(signal.SIGINT)  # PostgreSQL's fast shutdown
    server.wait()


def make_cluster(programs: Programs, place: Place) -> None:
    """initdb and our database, all or nothing: a cluster exists once its directory has the final name."""
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


def stop_orphan(place: Place) -> None:
    """Stop a server that outlived its keeper, and clear a pid file that names nobody or somebody else.

    PostgreSQL refuses to start while the pid in the file lives, even where another program has that pid by now.
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


def start_server(programs: Programs, place: Place) -> subprocess.Popen[bytes]:
    """Start PostgreSQL on a unix socket only and wait until it takes connections."""
    make_socket_directory(programs, place)
    too_large = place.log.exists() and place.log.stat().st_size > _LOG_LIMIT_BYTES
    with place.log.open("wb" if too_large else "ab") as log:
        begin = log.tell()
        server = programs.start(
            ["-D", str(place.data), "-c", f"unix_socket_directories={place.sockets}", "-c", "listen_addresses="], log
        )
    deadline = time.monotonic() + START_TIMEOUT_S
    while not is_ready(place, server.pid):
        if server.poll() is not None:
            raise _explain("PostgreSQL did not start", place, place.log.read_bytes()[begin:].decode(errors="replace"))
        if time.monotonic() > deadline:
            server.send_signal(signal.SIGQUIT)
            raise EmbeddedError(f"PostgreSQL was not ready after {START_TIMEOUT_S:.0f} s", help_text=f"see {place.log}")
        time.sleep(0.01)
    return server


def make_socket_directory(programs: Programs, place: Place) -> None:
    """Private to the server's account: whoever can reach the socket is superuser. A stranger's directory is refused."""
    try:
        place.sockets.mkdir(mode=0o700)
    except FileExistsError:
        found = place.sockets.lstat()
        owners = (os.geteuid(), programs.identity().get("user"))
        if not stat.S_ISDIR(found.st_mode) or found.st_uid not in owners or found.st_mode & 0o077:
            raise EmbeddedError(
                f"the socket directory {place.sockets} is not a private directory of ours",
                help_text=f"remove it, or point HORSIES_HOME to a shorter path: the socket then lies in {place.root}",
            ) from None
    programs.own(place.sockets)


def is_ready(place: Place, pid: int | None = None) -> bool:
    """Whether the server (this one, where a pid is given) takes connections: the last line of its pid file says so."""
    try:
        lines = (place.data / "postmaster.pid").read_text().split("\n")
    except FileNotFoundError:
        return False
    return len(lines) > 7 and lines[7].strip() == "ready" and pid in (None, int(lines[0]))


def _explain(what: str, place: Place, output: str) -> EmbeddedError:
    """The cause in a sentence where we know it, the last lines of the program's own words otherwise."""
    if NO_SPACE in output:
        return disk_full(what, place.root)
    last_words = "\n".join(line for line in output.strip().splitlines()[-6:] if line.strip())
    return EmbeddedError(f"{what} in {place.root}", notes=[last_words], help_text=f"the whole log is {place.log}")


def _log(place: Place, text: str) -> None:
    with place.log.open("a") as log:
        log.write(f"keeper {os.getpid()}: {text}\n")


def _answer(error: EmbeddedError | None) -> None:
    """Tell whoever waits, then let go of the pipe."""
    words = {} if error is None else {"message": error.message, "help": error.help_text, "notes": error.notes}
    try:
        os.write(sys.stdout.fileno(), json.dumps(words).encode() + b"\n")
    except BrokenPipeError:
        return  # the starter died meanwhile: its lock is gone too, and keep() will see that
    with Path(os.devnull).open("wb") as nowhere:
        os.dup2(nowhere.fileno(), sys.stdout.fileno())


if __name__ == "__main__":
    main()
