"""A PostgreSQL primary with a standby, for scenes in which the primary crashes or hangs."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import psycopg

BINARIES = Path("/usr/lib/postgresql/15/bin")
ACCOUNT = "postgres"
_PATIENCE_S = 30.0


class Server:
    """One server: its directory, its port, and operations on it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.port = _free_port()

    @property
    def url(self) -> str:
        return f"postgresql://{ACCOUNT}@127.0.0.1:{self.port}/postgres"

    def run(self, program: str, *words: str) -> None:
        """Run a program of PostgreSQL, as the account that may run it."""
        command = [str(BINARIES / program), *words]
        if os.geteuid() == 0:
            command = ["runuser", "-u", ACCOUNT, "--", *command]
        done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, cwd="/")
        assert done.returncode == 0, f"{program}: {done.stderr}"

    def start(self, **settings: str) -> None:
        given = {
            "port": str(self.port),
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": str(self.directory),
            "wal_keep_size": "256MB",
            **settings,
        }
        text = "".join(f"{name} = '{value}'\n" for name, value in given.items())
        with (self.directory / "postgresql.auto.conf").open("a") as file:
            file.write(text)
        self.run("pg_ctl", "-D", str(self.directory), "-l", str(self.directory / "log"), "-w", "-t", "60", "start")

    def promote(self) -> None:
        self.run("pg_ctl", "-D", str(self.directory), "-w", "promote")

    @property
    def processes(self) -> list[psutil.Process]:
        try:
            pid = int((self.directory / "postmaster.pid").read_text().split()[0])
            postmaster = psutil.Process(pid)
        except (OSError, psutil.NoSuchProcess):
            return []
        return [postmaster, *postmaster.children()]

    def crash(self) -> None:
        self._signal(signal.SIGKILL)

    def hang(self) -> None:
        """The kernel still accepts connections, and the server never answers."""
        self._signal(signal.SIGSTOP)

    def close(self) -> None:
        processes = self.processes
        self._signal(signal.SIGKILL)
        psutil.wait_procs(processes, 10)
        shutil.rmtree(self.directory, ignore_errors=True)

    def _signal(self, number: int) -> None:
        for process in self.processes:
            with _gone_is_fine():
                process.send_signal(number)


class Pair:
    """A primary and its standby; `url` names both, as workers get it."""

    def __init__(self, primary: Server, standby: Server) -> None:
        self.primary = primary
        self.standby = standby

    @property
    def url(self) -> str:
        hosts = f"127.0.0.1:{self.primary.port},127.0.0.1:{self.standby.port}"
        return f"postgresql://{ACCOUNT}@{hosts}/postgres?target_session_attrs=read-write"

    def delay_standby(self) -> None:
        """From now on the standby receives nothing, so it lacks what is committed next."""
        with psycopg.connect(self.standby.url, autocommit=True) as connection:
            connection.execute("ALTER SYSTEM SET primary_conninfo = ''")
            connection.execute("SELECT pg_reload_conf()")
            deadline = time.monotonic() + _PATIENCE_S
            while connection.execute("SELECT count(*) FROM pg_stat_wal_receiver").fetchone() != (0,):
                assert time.monotonic() < deadline, "the standby does not stop following"
                time.sleep(0.05)


@contextmanager
def new_servers(count: int) -> Iterator[list[Server]]:
    """The first server runs, the others have an empty directory.

    Needs Debian's postgresql-15, and fails without it: a skipped scene would prove nothing.
    """
    assert (BINARIES / "initdb").exists(), f"no PostgreSQL in {BINARIES}: apt-get install postgresql-15"
    root = Path(tempfile.mkdtemp(prefix="hc-servers-"))
    root.chmod(0o755)
    servers = []
    for number in range(count):
        directory = root / str(number)
        directory.mkdir(mode=0o700)
        if os.geteuid() == 0:
            shutil.chown(directory, ACCOUNT, ACCOUNT)
        servers.append(Server(directory))
    try:
        servers[0].run("initdb", "-D", str(servers[0].directory), "-U", ACCOUNT, "-A", "trust", "-N")
        servers[0].start()
        yield servers
    finally:
        for server in servers:
            server.close()
        shutil.rmtree(root, ignore_errors=True)


@contextmanager
def failover_pair(*, synchronous: bool) -> Iterator[Pair]:
    with new_servers(2) as (primary, standby):
        primary.run("pg_basebackup", "-D", str(standby.directory), "-R", "-d", primary.url)
        standby.start()
        with psycopg.connect(primary.url, autocommit=True) as connection:
            if synchronous:
                connection.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
                connection.execute("SELECT pg_reload_conf()")
            _wait_until_followed(connection, "sync" if synchronous else "async")
        yield Pair(primary, standby)


def _wait_until_followed(connection: psycopg.Connection[tuple[object, ...]], state: str) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while connection.execute("SELECT sync_state FROM pg_stat_replication").fetchone() != (state,):
        assert time.monotonic() < deadline, "the standby does not follow"
        time.sleep(0.1)


@contextmanager
def _gone_is_fine() -> Iterator[None]:
    try:
        yield
    except psutil.NoSuchProcess:
        return


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
