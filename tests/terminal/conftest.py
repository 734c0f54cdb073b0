"""The environment of a console in a terminal, and a shop with something to look at."""

from __future__ import annotations

import os
from pathlib import Path

import asyncpg
import pytest

FILL = """
SET session_replication_role = replica; -- nobody listens yet

INSERT INTO horsies_tasks (id, task_name, queue_name, status, claimed_by_worker_id, created_at, sent_at, enqueued_at,
                           claimed_at, started_at, completed_at)
SELECT lpad(n::text, 8, '0') || '-0000-7000-8000-000000000000', 'shop.task_' || n % 40, 'q' || n % 6, 'COMPLETED',
       'w-' || n % 9, at, at, at, at, at + interval '1 s', at + interval '3 s'
  FROM generate_series(1, $1) n CROSS JOIN LATERAL (SELECT now() - interval '3 days' - n * interval '1 s' AS at) made
"""


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    inherited = {name: os.environ[name] for name in ("PATH", "TMPDIR") if name in os.environ}
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
    """The environment of a console on a database of 2 000 tasks that ended days ago."""
    connection = await asyncpg.connect(database)
    await fill(connection, 2_000)
    await connection.close()
    return {**environ, "HORSIES_DATABASE_URL": database}


async def fill(connection: asyncpg.Connection, count: int) -> None:
    setting, insert = FILL.split("\n\n")
    await connection.execute(setting)
    await connection.execute(insert, count)
    await connection.execute("SET session_replication_role = DEFAULT")
    await connection.execute("ANALYZE horsies_tasks")
