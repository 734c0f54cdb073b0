"""A server of one bench alone, whose files no other test writes."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from horsies.store.embedded import EmbeddedPlace, acquire
from horsies.store.embedded.trusted_paths import FileLock


@pytest.fixture
def own_database() -> Iterator[str]:
    directory = Path(tempfile.mkdtemp(prefix="hc-bench-"))
    directory.chmod(0o755)
    with acquire(EmbeddedPlace(directory)) as server:
        yield server.url
    with FileLock(directory / "keeper.lock") as keeper:
        assert keeper.exclusive_within(30)
    shutil.rmtree(directory)
