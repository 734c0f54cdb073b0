"""What a sweep tells the hooks of its worker: each run that it has counted as crashed, once."""

from __future__ import annotations

import asyncpg
from pulse_steps import pulse_row
from sweep_steps import options, stale_runs

from horsies import AppConfig, Horsies, PostgresConfig, RecoveryConfig, TaskFailed, TaskRetried
from horsies.run.events import Events
from horsies.run.worker.hook_threads import Hooks
from horsies.run.worker.sweeper import StaleRuns


async def test_a_run_that_is_failed_and_one_that_is_retried_are_told(connection: asyncpg.Connection) -> None:
    await stale_runs(connection, "f")
    await stale_runs(connection, "r", max_retries="5", retry_count="2", task_options=options("WORKER_CRASHED"))
    await pulse_row(connection)
    app = Horsies(AppConfig(broker=PostgresConfig(database_url="postgresql://u@db/app")))
    told: list[TaskFailed | TaskRetried] = []
    app.on("task_failed", told.append)
    app.on("task_retried", told.append)
    events = Events()
    hooks = Hooks(app.hooks, events, "rescuer")
    events.observers.append(hooks)
    rule = StaleRuns(RecoveryConfig(), events)
    for _ in range(2):  # the second sweep finds nothing more
        await rule.do(connection)
    await hooks.close(10)
    rows = {row["id"]: row for row in await connection.fetch("SELECT * FROM horsies_tasks")}
    assert {one.task_id for one in told} == {"f", "r"}
    assert len(told) == 2
    for one in told:
        assert (one.error_code, one.worker_id, one.found_by_sweep) == ("WORKER_CRASHED", "rescuer", True)
        assert (one.task_name, one.queue_name) == (rows[one.task_id]["task_name"], rows[one.task_id]["queue_name"])
        assert "its worker crashed" in (one.error_message or "")
    (failed,) = (one for one in told if isinstance(one, TaskFailed))
    (retried,) = (one for one in told if isinstance(one, TaskRetried))
    assert (failed.task_id, failed.attempt) == ("f", 1)
    assert (retried.task_id, retried.attempt) == ("r", 3)
    assert retried.retry_at == rows["r"]["next_retry_at"]
