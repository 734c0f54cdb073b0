"""The environment of a console in a terminal, and databases with tasks to show."""

from __future__ import annotations

import os
from pathlib import Path

import asyncpg
import pytest
from old_tasks import fill


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    inherited = {name: os.environ[name] for name in ("PATH", "TMPDIR", "PYTHONPYCACHEPREFIX") if name in os.environ}
    return {
        **inherited,
        "HOME": str(tmp_path),
        "XDG_CONFIG_HOME": str(tmp_path),
        "XDG_STATE_HOME": str(tmp_path),
        "LANG": "C.UTF-8",
        "TERM": "xterm-256color",
        "COLORTERM": "truecolor",
    }


@pytest.fixture
async def quiet(database: str, environ: dict[str, str]) -> dict[str, str]:
    """The environment of a console on a database of 2,000 tasks that ended days ago."""
    connection = await asyncpg.connect(database)
    await fill(connection, 2_000)
    await connection.close()
    return {**environ, "HORSIES_DATABASE_URL": database}
