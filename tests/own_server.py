"""A PostgreSQL server of one test, which the test may configure, stop, kill and start again."""

from __future__ import annotations

import asyncio
import shutil
import signal
import subprocess
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import asyncpg

from horsies.store.embedded.binaries import Programs, find_programs
from horsies.store.embedded.place import EmbeddedPlace
from horsies.store.schema import create

_SETTINGS = {"fsync": "off", "max_connections": "200", "listen_addresses": "", "autovacuum_naptime": "5s"}


class OwnServer:
    """Reached by a socket in its directory, which does not exist while the server is stopped."""

    def __init__(self, root: Path, programs: Programs, settings: Mapping[str, str]) -> None:
        self._root = root
        self._settings = {**_SETTINGS, **settings}
        self._programs = programs
        self._process: subprocess.Popen[bytes] | None = None
        self.url = f"postgresql://horsies@/postgres?host={root}&port=5432"

    async def start(self) -> None:
        """Start the server and wait until it takes connections."""
        settings = [word for name, value in self._settings.items() for word in ("-c", f"{name}={value}")]
        with (self._root / "server.log").open("ab") as log:
            self._process = self._programs.start(
                ["-D", str(self._root / "data"), "-k", str(self._root), *settings], log
            )
        async with asyncio.timeout(30):
            while True:
                try:
                    await (await asyncpg.connect(self.url)).close()
                except (OSError, asyncpg.PostgresError):
                    await asyncio.sleep(0.02)
                else:
                    return

    def stop(self, how: int = signal.SIGINT) -> None:
        """Stop the server: SIGINT ends all sessions first, SIGQUIT is a crash."""
        assert self._process is not None
        self._process.send_signal(how)
        self._process.wait(30)
        self._process = None

    def close(self) -> None:
        if self._process is not None:
            self.stop(signal.SIGQUIT)
        shutil.rmtree(self._root)


def _made(settings: Mapping[str, str]) -> OwnServer:
    memory = Path("/dev/shm")
    root = Path(tempfile.mkdtemp(prefix="hc-chaos-", dir=memory if memory.is_dir() else None))
    root.chmod(0o755)
    programs = find_programs(EmbeddedPlace(root))
    programs.own(root)
    made = programs.run("initdb", "-D", str(root / "data"), "-U", "horsies", "--auth=trust", "--locale=C", "-E", "UTF8")
    assert made.returncode == 0, made.stdout
    return OwnServer(root, programs, settings)


@asynccontextmanager
async def own_server(**settings: str) -> AsyncIterator[OwnServer]:
    """With the current schema in the database `postgres`."""
    server = _made(settings)
    try:
        await server.start()
        connection = await asyncpg.connect(server.url)
        await create(connection)
        await connection.close()
        yield server
    finally:
        server.close()
