"""Every number of the overview counts exactly the rows of its filter."""

from __future__ import annotations

from datetime import timedelta

import asyncpg
import pytest
from view_steps import every_id, insert

from horsies.views import LATELY, failures, queue_rates, queue_rows
from horsies_tui.health.figure_filters import NUMBERS, rows_of_error, rows_of_number, rows_that_ended, rows_that_failed

QUEUE = 'odd name, "mail"'


@pytest.fixture
async def rows(conn: asyncpg.Connection) -> None:
    """A task of each kind in one queue, and the same in another."""
    for number, queue in enumerate((QUEUE, "other")):

        async def add(task_id: str, **columns: str) -> None:
            long_ago = dict.fromkeys(("created_at", "enqueued_at"), "now() - interval '1 h'")
            given = {"queue_name": f"'{queue}'", **long_ago, **columns}  # noqa: B023
            await insert(conn, f"{task_id}{number}", **given)  # noqa: B023

        await add("due", enqueued_at="now() - interval '9 min'")
        await add("new", enqueued_at="now() - interval '2 s'", created_at="now() - interval '2 s'")
        await add("later", enqueued_at="now() + interval '9 min'")
        await add("retry", enqueued_at="now() + interval '9 min'", next_retry_at="now() + interval '9 min'")
        await add("claimed", status="'CLAIMED'", claimed="true")
        await add("running", status="'RUNNING'", started_at="now()")
        await add("done", status="'COMPLETED'", completed_at="now() - interval '30 s'")
        await add("failed", status="'FAILED'", failed_at="now() - interval '2 min'", error_code="'TIMEOUT'")
        await add("bare", status="'FAILED'", failed_at="now() - interval '2 min'")
        await add("early", status="'FAILED'", failed_at="now() - interval '11 min'", error_code="'TIMEOUT'")
        await add("old", status="'COMPLETED'", completed_at="now() - interval '40 min'")


SHOWN = {
    "pending": {"due", "new", "later", "retry"},
    "due": {"due", "new"},
    "later": {"later", "retry"},
    "claimed": {"claimed"},
    "running": {"running"},
    "cap": {"running"},
    "oldest": {"due", "new"},
    "in": {"new"},
    "out": {"done", "failed", "bare"},
    "in1m": {"new"},
    "out1m": {"done"},
    "drains": {"due", "new"},
}


@pytest.mark.usefixtures("rows")
async def test_each_number_of_a_queue_is_that_of_the_rows_that_it_opens(conn: asyncpg.Connection) -> None:
    assert set(SHOWN) == set(NUMBERS)
    now = await conn.fetchval("SELECT now()")
    for column, names in SHOWN.items():
        found = await every_id(conn, rows_of_number(column, QUEUE, now))
        assert set(found) == {f"{name}0" for name in names}, column
        everywhere = await every_id(conn, rows_of_number(column, "", now))
        assert set(everywhere) == {f"{name}{number}" for name in names for number in (0, 1)}, column
    row = next(row for row in await queue_rows(conn) if row.name == QUEUE)
    rate = (await queue_rates(conn))[QUEUE]
    assert (row.due.number, row.later.number, row.claimed, row.running) == (2, 2, 1, 1)
    assert (round(rate.in_per_s * 300), round(rate.out_per_s * 300)) == (1, 3)


@pytest.mark.usefixtures("rows")
async def test_failures_are_those_of_the_rows_that_they_open(conn: asyncpg.Connection) -> None:
    now = await conn.fetchval("SELECT now()")
    for kind in await failures(conn):
        found = await every_id(conn, rows_of_error(kind.error_code, now - LATELY))
        assert len(found) == kind.lately == 2
    assert set(await every_id(conn, rows_that_failed(now - LATELY))) == {"failed0", "bare0", "failed1", "bare1"}
    assert len(await every_id(conn, rows_that_ended(now - timedelta(minutes=30), now))) == 8
