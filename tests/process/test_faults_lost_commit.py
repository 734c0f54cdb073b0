"""A commit whose reply is lost: the server waits for a standby, so it is a server of this process."""

from __future__ import annotations

import asyncio

import pytest
from fault_scene import DONE, ENDED, Scene


@pytest.fixture
def database(embedded_database: str) -> str:
    return embedded_database


WAITING = "FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND datname = current_database()"
# A waiting snapshot would hold the lock of all notifications, so the finish could not begin to wait.
LOST = f"""
SELECT bool_or(pg_terminate_backend(pid, 5000) AND application_name = 'horsies worker finish') {WAITING}
   AND application_name IN ('horsies worker finish', 'horsies worker upkeep')
"""


# The state of a standby that lacks the finish, or also the start; then the sessions to the old primary end.
BEHIND = """
SET session_replication_role = replica;
DELETE FROM horsies_task_attempts;
UPDATE horsies_tasks SET status = '{status}', completed_at = NULL, failed_at = NULL, result = NULL, error_code = NULL,
       claimed = '{status}' = 'CLAIMED',
       claim_expires_at = CASE '{status}' WHEN 'CLAIMED' THEN now() + interval '1 min' END;
SET session_replication_role = origin;
"""
CUT = """
SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
 WHERE application_name LIKE 'horsies worker%' AND datname = current_database()
"""


@pytest.mark.parametrize("status", ["RUNNING", "CLAIMED"])
async def test_what_had_ended_is_stored_again_after_a_failover_that_lost_it(scene: Scene, status: str) -> None:
    worker = await scene.worker(TEST_STALE_MS="60000")
    await scene.send("work", "a", retries=0)
    await scene.send("flaky", "b", retries=0)
    await scene.until(ENDED)
    before = {label: await scene.table.row(scene.ids[label]) for label in "ab"}
    history = {label: await scene.history(label) for label in "ab"}
    await scene.connection.execute(BEHIND.format(status=status))
    await scene.connection.execute(CUT)  # afterwards, because the worker reconnects at once and reads
    await scene.until(ENDED)
    told = [await asyncio.to_thread(worker.wait_for, "commit of an outcome lost") for _ in "ab"]
    assert {one["id"] for one in told} == set(scene.ids.values())
    for label in "ab":
        row = await scene.table.row(scene.ids[label])
        for column in ("status", "result", "error_code", "failed_reason", "retry_count", "claimed_at"):
            assert row[column] == before[label][column]
        assert (await scene.history(label), len(scene.runs(label))) == (history[label], 1)


async def test_a_finish_whose_answer_is_lost_is_not_a_second_outcome(scene: Scene) -> None:
    """Committed, and the session dies before the reply: the server waits for a standby that does not exist."""
    await scene.connection.execute("SET synchronous_commit = local")
    worker = await scene.worker(TEST_STALE_MS="60000")  # its beats will not be seen for a while
    await scene.send("hold", "a")
    await scene.begun("a")
    try:
        await scene.connection.execute("ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
        await scene.connection.execute("SELECT pg_reload_conf()")
        # From now on every commit waits.
        await scene.until(f"SELECT true {WAITING} AND application_name = 'horsies worker beat'")
        await scene.let_go()
        await scene.until(LOST)
    finally:
        await scene.connection.execute("ALTER SYSTEM RESET synchronous_standby_names")
        await scene.connection.execute("SELECT pg_reload_conf()")
    assert (await scene.table.row(scene.ids["a"]))["status"] == "COMPLETED"
    finished = await asyncio.to_thread(worker.wait_for, "finished")
    assert finished["id"] == scene.ids["a"]
    await scene.settled()
    assert (await scene.history("a"), len(scene.runs("a"))) == ([DONE], 1)
