"""A PgBouncer process in front of a server."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from psycopg.conninfo import conninfo_to_dict

_PROGRAM = Path("/usr/sbin/pgbouncer")
_PATIENCE_S = 10.0


@contextmanager
def pgbouncer(url: str, mode: str) -> Iterator[str]:
    """The URL of the same database through a pool of ten connections; `mode` is session or transaction."""
    assert _PROGRAM.exists(), "no pgbouncer: apt-get install pgbouncer"
    behind = conninfo_to_dict(url)
    directory = Path(tempfile.mkdtemp(prefix="hc-bouncer-"))
    directory.chmod(0o777)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    target = f"host={behind['host']} port={behind.get('port', 5432)} dbname={behind['dbname']} user={behind['user']}"
    if "password" in behind:
        target += f" password={behind['password']}"
    settings = directory / "pgbouncer.ini"
    settings.write_text(
        f"[databases]\n* = {target}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nauth_type = any\n"
        f"pool_mode = {mode}\ndefault_pool_size = {10 if mode == 'transaction' else 60}\nmax_client_conn = 200\n"
        f"unix_socket_dir =\nlogfile = {directory}/log\n"
    )
    command = [str(_PROGRAM), str(settings)]
    if os.geteuid() == 0:
        command = ["runuser", "-u", "postgres", "--", *command]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/")
    try:
        _wait_for(port, process)
        yield f"postgresql://{behind['user']}@127.0.0.1:{port}/{behind['dbname']}"
    finally:
        process.terminate()
        process.wait(_PATIENCE_S)
        shutil.rmtree(directory, ignore_errors=True)


def _wait_for(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + _PATIENCE_S
    while process.poll() is None and time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise AssertionError("pgbouncer does not answer")
