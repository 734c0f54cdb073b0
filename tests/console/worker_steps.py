"""Steps for tests of the workers screen: the console on it, and snapshots of workers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
from frame_steps import options
from task_steps import Screen
from verb_steps import OPS, until

from horsies_tui.look.cells import GUTTER
from horsies_tui.shell.app import ConsoleApp
from horsies_tui.workers.view import WorkersView

WIDE = (160, 40)
STATES = ("alive", "draining", "late", "lost", "died", "stopped")


class Workers(Screen):
    @property
    def view(self) -> Any:
        return self.app.query_one(WorkersView)

    @property
    def names(self) -> list[str]:
        """The workers in the visible part of the list."""
        rows = [line[GUTTER:].split() for line in self._lines]
        return [row[2] for row in rows if len(row) > 2 and row[1] in STATES]

    @property
    def cursor(self) -> str:
        return next((line for line in self._lines if line.startswith(("▌", "|"))), "")

    @property
    def _lines(self) -> list[str]:
        """The lines of the list, from its titles to the details of a worker."""
        lines = self.text.splitlines()[5:-1]
        end = next((number for number, line in enumerate(lines) if line.startswith(("── ", "-- "))), len(lines))
        return lines[:end]


@asynccontextmanager
async def workers(url: str, size: tuple[int, int] = WIDE, **settings: Any) -> AsyncIterator[Workers]:
    app = ConsoleApp(options(url, screen="workers", **settings), actor=OPS)
    async with app.run_test(size=size) as pilot:
        screen = Workers(pilot)
        await until(pilot, lambda: app.link.status.is_up, "connects")
        yield screen


async def tell(conn: asyncpg.Connection, host: str, pid: int, ago_s: float = 0.0, **columns: str) -> str:
    """Insert a snapshot, and return its worker's id."""
    given = {
        "worker_id": f"'{host}-{pid}-0a'", "snapshot_at": f"now() - {ago_s} * interval '1 s'", "hostname": f"'{host}'",
        "pid": str(pid), "processes": "8", "max_claim_batch": "8", "max_claim_per_worker": "8",
        "queues": "'{mail,pay}'", "worker_started_at": "now() - interval '3 h'", "memory_usage_mb": "100",
        "children_memory_mb": "312", "cpu_percent": "41", "horsies_version": "'0.9.1'", **columns,
    }  # fmt: skip
    await conn.execute(f"INSERT INTO horsies_worker_states ({', '.join(given)}) VALUES ({', '.join(given.values())})")
    return f"{host}-{pid}-0a"


async def hold(conn: asyncpg.Connection, worker_id: str, *ids: str, status: str = "RUNNING", ago_s: float = 5) -> None:
    await conn.execute(
        "INSERT INTO horsies_tasks (id, task_name, queue_name, status, claimed, claimed_by_worker_id, claimed_at,"
        " started_at) SELECT id, 'shop.mail', 'mail', $2::text, $2::text = 'CLAIMED', $3,"
        " now() - $4::float8 * interval '1 s',"
        " CASE WHEN $2::text = 'RUNNING' THEN now() - $4::float8 * interval '1 s' END"
        " FROM unnest($1::text[]) AS new (id)",
        list(ids),
        status,
        worker_id,
        ago_s,
    )


async def grow_older(conn: asyncpg.Connection, seconds: float) -> None:
    """Move all times of workers back, those of the pulse and its gaps, too."""
    for table, columns in {
        "horsies_worker_states": ("snapshot_at",),
        "horsies_heartbeats": ("sent_at",),
        "horsies_tasks": ("claimed_at", "started_at", "claim_expires_at"),
    }.items():
        moved = ", ".join(f"{column} = {column} - $1 * interval '1 s'" for column in columns)
        await conn.execute(f"UPDATE {table} SET {moved}", seconds)
    await conn.execute(
        "UPDATE horsies_pulse SET beaten_at = beaten_at - past, least_at = least_at - past, gaps = COALESCE("
        " (SELECT range_agg(tstzrange(lower(gap) - past, upper(gap) - past)) FROM unnest(gaps) AS gap), '{}')"
        " FROM (SELECT $1 * interval '1 s' AS past) moved",
        seconds,
    )
