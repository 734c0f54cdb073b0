"""The embedded server with real processes: shared, stopped by the last one out, and sound after kills."""

from __future__ import annotations

import asyncio
import os
import pwd
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import asyncpg
import psutil
import pytest

from horsies.store.embedded import EmbeddedError, Place, acquire, default_place
from horsies.store.embedded.keeper import is_ready
from horsies.store.embedded.locks import FileLock

HOLD = """
import sys
from pathlib import Path
from horsies.store.embedded import Place, acquire
held = acquire(Place(Path(sys.argv[1])))
print(held.url, flush=True)
sys.stdin.readline()
held.release()
"""


class Holder:
    """Another process that holds the server until it is told to let go, or killed."""

    def __init__(self, place: Place, *prefix: str) -> None:
        self.process = subprocess.Popen(
            [*prefix, sys.executable, "-c", HOLD, str(place.root)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        self.url = self.process.stdout.readline().strip()

    def let_go(self) -> None:
        self.process.communicate("\n", timeout=30)

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate(timeout=30)


@contextmanager
def holding(place: Place, *prefix: str) -> Iterator[Holder]:
    holder = Holder(place, *prefix)
    try:
        yield holder
    finally:
        if holder.process.poll() is None:
            holder.kill()


@pytest.fixture
def place(short_directory: Path) -> Place:
    return Place(short_directory / "pg")


def wait_until_stopped(place: Place) -> None:
    """The keeper holds its lock until it has stopped the server."""
    with FileLock(place.keeper_lock) as keeper:
        assert keeper.exclusive_within(30)
    assert not (place.data / "postmaster.pid").exists()


def server_pid(place: Place) -> int:
    return int((place.data / "postmaster.pid").read_text().split("\n", 1)[0])


def keeper_of(place: Place) -> psutil.Process:
    parent = psutil.Process(server_pid(place)).parent()
    assert parent is not None
    assert "horsies.store.embedded.keeper" in parent.cmdline()
    return parent


async def ask(url: str, statement: str) -> object:
    connection = await asyncpg.connect(url)
    try:
        return await connection.fetchval(statement)
    finally:
        await connection.close()


async def test_two_processes_share_one_server_and_the_last_one_out_stops_it(place: Place) -> None:
    with holding(place) as first, holding(place) as second:
        assert first.url == second.url == place.url
        pid = server_pid(place)
        first.let_go()
        assert await ask(second.url, "SELECT 1") == 1
        assert server_pid(place) == pid
        second.let_go()
    wait_until_stopped(place)
    assert not psutil.pid_exists(pid)


async def test_a_killed_user_counts_as_gone(place: Place) -> None:
    with holding(place) as killed, holding(place) as leaver:
        killed.kill()
        assert await ask(leaver.url, "SELECT 1") == 1
        leaver.let_go()
    wait_until_stopped(place)


def test_the_server_stops_even_when_its_only_user_is_killed(place: Place) -> None:
    with holding(place) as only:
        pid = server_pid(place)
        only.kill()
    wait_until_stopped(place)
    assert not psutil.pid_exists(pid)


async def test_data_outlives_the_server(place: Place) -> None:
    with acquire(place) as held:
        await ask(held.url, "CREATE TABLE kept AS SELECT 7 AS n")
    wait_until_stopped(place)
    with acquire(place) as held:
        assert await ask(held.url, "SELECT n FROM kept") == 7


async def test_ten_processes_at_once_get_one_server(place: Place) -> None:
    with ThreadPoolExecutor(10) as threads:
        holders = list(threads.map(Holder, [place] * 10))
    assert {holder.url for holder in holders} == {place.url}
    assert await ask(place.url, "SELECT count(*) FROM pg_database WHERE datname = 'horsies'") == 1
    for holder in holders:
        holder.let_go()
        assert holder.process.returncode == 0
    wait_until_stopped(place)


def test_a_stale_pid_file_and_socket_are_survived(place: Place) -> None:
    """After a power cut both files lie around, and the pid may belong to anybody by now: here, to this test."""
    acquire(place).release()
    wait_until_stopped(place)
    (place.data / "postmaster.pid").write_text(f"{os.getpid()}\n{place.data}\n1\n5432\n{place.sockets}\n\n1 2\nready\n")
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(place.sockets / ".s.PGSQL.5432"))
    with acquire(place):
        assert server_pid(place) != os.getpid()


async def test_a_server_that_lost_its_keeper_is_taken_over(place: Place) -> None:
    with acquire(place) as held:
        await ask(held.url, "CREATE TABLE kept AS SELECT 7 AS n")
        orphan = server_pid(place)
        keeper = keeper_of(place)
        keeper.kill()
        psutil.wait_procs([keeper], timeout=10)
    assert psutil.pid_exists(orphan)
    with acquire(place) as held:
        assert server_pid(place) != orphan
        assert await ask(held.url, "SELECT n FROM kept") == 7
    wait_until_stopped(place)


async def test_a_crashed_server_is_started_again_for_those_who_hold_it(place: Place) -> None:
    with acquire(place) as held:
        crashed = psutil.Process(server_pid(place))
        crashed.kill()
        psutil.wait_procs([crashed], timeout=10)
        async with asyncio.timeout(30):
            while not is_ready(place) or server_pid(place) == crashed.pid:  # noqa: ASYNC110 - its sign is a file
                await asyncio.sleep(0.01)
        assert await ask(held.url, "SELECT 1") == 1


def test_an_initialization_that_was_killed_leaves_nothing_half_made(place: Place) -> None:
    """`data` gets its name only when the cluster is complete; whatever else lies there is thrown away."""
    place.prepare()
    place.half_made_data.mkdir()
    (place.half_made_data / "PG_VERSION").write_text("18\n")
    with acquire(place):
        assert not place.half_made_data.exists()
        assert (place.data / "base").exists()


def test_a_long_path_puts_the_socket_elsewhere(short_directory: Path) -> None:
    place = Place(short_directory / ("long" * 30) / "pg")
    assert place.sockets.parent != place.root
    with acquire(place) as held:
        assert f"host={place.sockets}" in held.url
        assert place.sockets.stat().st_mode & 0o077 == 0
    wait_until_stopped(place)
    place.sockets.rmdir()


def test_a_socket_directory_of_a_stranger_is_refused(short_directory: Path) -> None:
    place = Place(short_directory / ("long" * 30) / "pg")
    place.sockets.mkdir(mode=0o777)
    place.sockets.chmod(0o777)
    try:
        with pytest.raises(EmbeddedError, match="not a private directory of ours"):
            acquire(place)
    finally:
        place.sockets.rmdir()


def test_the_server_works_for_root_and_for_an_ordinary_user(place: Place) -> None:
    """Root's server runs under an account of its own. Under root the ordinary user comes from a user namespace."""
    if os.geteuid() != 0:
        with acquire(place):
            assert psutil.Process(server_pid(place)).uids().effective == os.geteuid()
        return
    with acquire(place):
        account = psutil.Process(server_pid(place)).username()
        assert account in {"pgserver", "nobody"}
        assert place.data.owner() == account
    other = Place(place.root.with_name("user"))
    with holding(other, "unshare", "--user", "--map-user=1000") as holder:
        assert holder.url == other.url
        assert other.data.owner() == pwd.getpwuid(0).pw_name  # root, which is user 1000 inside the namespace
    wait_until_stopped(other)


def refused(place: Path, *prefix: str) -> str:
    """What a process says that cannot have a server there."""
    found = subprocess.run(
        [*prefix, sys.executable, "-c", HOLD, str(place)], capture_output=True, text=True, timeout=60, input="\n"
    )
    assert found.returncode == 1
    return found.stderr


def test_a_directory_that_is_a_file_says_what_to_do(short_directory: Path) -> None:
    (short_directory / "file").write_text("")
    said = refused(short_directory / "file" / "pg")
    assert "cannot use" in said
    assert "HORSIES_HOME" in said


def test_a_directory_of_somebody_else_names_its_owner() -> None:
    """Root may write everywhere, so root's run drops to `nobody` in a fork first."""
    pid = os.fork()
    if pid == 0:
        if os.geteuid() == 0:
            os.setgroups([])
            os.setresgid(65534, 65534, 65534)
            os.setresuid(65534, 65534, 65534)
        try:
            Place(Path("/horsies-of-somebody-else")).prepare()
        except EmbeddedError as error:
            os._exit(0 if "belongs to root" in str(error) and "HORSIES_HOME" in str(error) else 2)
        os._exit(3)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_a_full_disk_is_named_as_such(short_directory: Path) -> None:
    """A tmpfs of 6 MB in a mount namespace of its own holds no cluster."""
    namespace = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--user", "--map-root-user", "--mount"]
    mount = f'mount -t tmpfs -o size=6m,mode=755 tmpfs {short_directory} && exec "$@"'
    said = refused(short_directory / "pg", *namespace, "sh", "-c", mount, "sh")
    assert "is full" in said
    assert "free some space" in said


def test_data_of_another_postgresql_is_refused_with_the_way_out(place: Place) -> None:
    place.data.mkdir(parents=True)
    (place.data / "PG_VERSION").write_text("9\n")
    with pytest.raises(EmbeddedError, match=r"was made by PostgreSQL 9; the installed wheel has \[16, 18\]"):
        acquire(place)


def test_without_the_wheel_both_ways_out_are_named(place: Place) -> None:
    # -S leaves the wheel out of sight, while PYTHONPATH keeps what the rest needs.
    hide = (
        "import sys, importlib.util as u; f = u.find_spec; u.find_spec = lambda n: None if 'pgserver' in n else f(n)\n"
    )
    code = hide + "from horsies.store.embedded.binaries import find_programs\n"
    code += "from horsies.store.embedded import Place; from pathlib import Path; find_programs(Place(Path('/x')))"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stderr
    assert "pip install 'horsies-console[embedded]'" in said
    assert "--database-url" in said


def test_an_interrupt_in_the_terminal_does_not_reach_the_server(place: Place) -> None:
    with acquire(place):
        assert os.getsid(server_pid(place)) != os.getsid(0)
        assert os.getsid(keeper_of(place).pid) != os.getsid(0)
        os.kill(server_pid(place), signal.SIGWINCH)  # the session is alive and ours to signal


def test_horsies_home_moves_the_default_place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HORSIES_HOME", str(tmp_path))
    assert default_place().root == tmp_path / "postgres"
    monkeypatch.delenv("HORSIES_HOME")
    assert re.search(r"horsies/postgres$", str(default_place().root))
