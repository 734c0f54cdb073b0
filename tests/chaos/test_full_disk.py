"""A full disk: outcomes that cannot be stored wait, and are stored when there is room again."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import asyncpg
import pytest
from chaos_scene import scene, until

from horsies.store.embedded import EmbeddedServer

FULL_S = 8.0


@pytest.fixture
def small_disk(short_directory: Path, embedded_server: EmbeddedServer) -> Iterator[Path]:
    """64 MB, mounted where the server can create a tablespace; mounting needs root."""
    place = short_directory / "disk"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", place], check=True)
    owner = embedded_server.place.data.stat()
    (place / "tables").mkdir()
    subprocess.run(["chown", f"{owner.st_uid}:{owner.st_gid}", place / "tables"], check=True)
    yield place
    subprocess.run(["umount", "--lazy", place], check=True)


@asynccontextmanager
async def on_small_disk(server: str, database: str, place: Path) -> AsyncIterator[None]:
    """All tables of the database are on the small disk; the WAL is not."""
    asking, connection = await asyncpg.connect(database), await asyncpg.connect(server)
    name = await asking.fetchval("SELECT current_database()")
    await asking.close()
    await connection.execute(f"CREATE TABLESPACE small LOCATION '{place / 'tables'}'")
    await connection.execute(f"ALTER DATABASE {name} SET TABLESPACE small")
    yield
    await connection.execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'")
    await connection.execute(f"ALTER DATABASE {name} SET TABLESPACE pg_default")
    await connection.execute("DROP TABLESPACE small")
    await connection.close()


def fill(place: Path) -> Path:
    """A file that takes all remaining room."""
    filler = place / "filler"
    with filler.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(b"\0" * 8192)
    return filler


@pytest.mark.chaos
async def test_a_full_disk_loses_no_task_and_counts_no_living_run_as_crashed(
    embedded_server: EmbeddedServer, embedded_database: str, small_disk: Path, tmp_path: Path
) -> None:
    quick = {"TEST_STALE_MS": "3000", "TEST_BEAT_MS": "1000"}
    async with (
        on_small_disk(embedded_server.url, embedded_database, small_disk),
        scene(embedded_database, tmp_path, "the disk is full", **quick) as cluster,
    ):
        workers = [await cluster.worker("--processes", "4") for _ in range(2)]
        labels = await cluster.send("work", 60, 0.5)
        await cluster.begun(labels[:8])
        filler = fill(small_disk)
        await asyncio.sleep(FULL_S)
        filler.unlink()
        await cluster.settled(30)

        def told(event: str) -> int:
            return sum(record["event"] == event for worker in workers for record in cluster.log(worker))

        await until(lambda: told("writing again") == told("cannot write") >= 1)
        assert told("outcome rejected") == 0
        audit = await cluster.audit()
        assert audit.violations == []
