"""Two consoles that were opened at different times show the same past, cell by cell, though rows have changed since."""

from __future__ import annotations

from difflib import unified_diff

import asyncpg
import pytest
from frame_steps import console, frame, live, options, until
from textual.pilot import Pilot
from verb_steps import OPS

from horsies.operations.pipeline import apply, preview
from horsies.operations.selection import Selection
from horsies.operations.verbs import VERBS

SIZE = (160, 50)
NIGHT = """
INSERT INTO horsies_tasks (id, task_name, queue_name, status, created_at, enqueued_at, started_at, completed_at,
                           failed_at, error_code, claimed_by_worker_id)
SELECT 't' || n, 'shop.mail', 'mail', state, began - wait, began - wait, began,
       CASE state WHEN 'COMPLETED' THEN at END, CASE state WHEN 'FAILED' THEN at END,
       CASE state WHEN 'FAILED' THEN 'GATEWAY_DOWN' END, 'web-1-1-0a'
  FROM generate_series(1, 400) n
 CROSS JOIN LATERAL (SELECT now() - n * interval '600 ms' AS at,
                            now() - n * interval '600 ms' - interval '2 s' AS began,
                            CASE WHEN n BETWEEN 100 AND 250 THEN 'FAILED' ELSE 'COMPLETED' END AS state,
                            CASE WHEN n BETWEEN 100 AND 250 THEN interval '50 s' ELSE interval '7 s' END AS wait) made;
INSERT INTO horsies_task_attempts (task_id, attempt, outcome, will_retry, started_at, finished_at, error_code,
                                   waited_ms)
SELECT id, 1, status, false, started_at, COALESCE(completed_at, failed_at), error_code,
       extract(epoch FROM started_at - enqueued_at) * 1000
  FROM horsies_tasks;
INSERT INTO horsies_queue_samples (sampled_at, queue_name, waiting)
SELECT to_timestamp((extract(epoch FROM now())::bigint / 10 - n) * 10), '', n FROM generate_series(0, 30) n
"""
AGAIN = """
WITH again AS (
    UPDATE horsies_tasks SET status = 'COMPLETED', started_at = now() - interval '1 s', completed_at = now()
     WHERE status = 'PENDING' RETURNING id, started_at, completed_at
)
INSERT INTO horsies_task_attempts (task_id, attempt, outcome, will_retry, started_at, finished_at, waited_ms)
SELECT id, 2, 'COMPLETED', false, started_at, completed_at, 1000 FROM again
"""


def body(pilot: Pilot[int]) -> list[str]:
    """The charts, or the list, without what is of now: clocks, ages of the data, the verdict, queues."""
    lines = frame(pilot)
    first = next((at for at, line in enumerate(lines) if "finished/s" in line or "WHEN" in line), len(lines))
    return lines[first : next((at for at, line in enumerate(lines) if "QUEUE  " in line), -1)]


async def press(keys: list[str], shown: str, *pilots: Pilot[int]) -> None:
    for pilot in pilots:
        await pilot.press(*keys)
        await until(pilot, lambda pilot=pilot: shown in "\n".join(frame(pilot)), shown)


@pytest.mark.chaos
async def test_the_past_does_not_depend_on_when_a_console_was_opened(
    database: str, connection: asyncpg.Connection
) -> None:
    await connection.execute(NIGHT)
    async with console(options(database, screen="overview"), SIZE) as first:
        await live(first)
        await until(first, lambda: "GATEWAY_DOWN surges" in "\n".join(frame(first)), "the surge")
        await press(["left_square_bracket"] * 4, "5m ago", first)
        for window in ("30m ago", "1h ago"):
            await press(["right_square_bracket"], window, first)
        # What failed runs again and succeeds: its rows are no longer those of a failure, nor of a wait of 50 s.
        failed = [row["id"] for row in await connection.fetch("SELECT id FROM horsies_tasks WHERE status = 'FAILED'")]
        await apply(
            connection, await preview(connection, VERBS["task", "requeue"], Selection.of_ids(failed)), OPS, None
        )
        await connection.execute(AGAIN)
        async with console(options(database, screen="overview"), SIZE) as second:
            await live(second)
            # In the shortest window the two read at different times of a bucket more often than not.
            await press(["left_square_bracket"] * 4, "5m ago", first, second)
            for window in ("30m ago", "1h ago"):
                await press(["right_square_bracket"], window, first, second)
                await same(first, second)
            await press(["7"], "GATEWAY_DOWN", first, second)
            await same(first, second)


async def same(first: Pilot[int], second: Pilot[int]) -> None:
    """Both have read what there is once they show the same; what they never do alike is the failure."""
    try:
        await until(second, lambda: body(first) == body(second), "the same in both")
    except AssertionError:
        differs = "\n".join(unified_diff(body(first), body(second), "opened before", "opened after", n=0))
        raise AssertionError(f"two consoles differ:\n{differs}") from None
    assert any(line.strip() for line in body(first))
