"""After an outage of the database a sweep does not take for dead whoever could not beat meanwhile."""

from __future__ import annotations

import asyncpg
import pytest
from lifecycle_steps import running, statuses

from horsies.config.recovery import RecoveryConfig
from horsies.config.resilience import WorkerResilienceConfig
from horsies.run.events import Events
from horsies.run.outage import Outage
from horsies.run.sweeper import Recovery


@pytest.mark.parametrize(("away", "status"), [(True, "RUNNING"), (False, "FAILED")])
async def test_what_runs_is_spared_while_its_worker_may_be_on_the_way_back(
    connection: asyncpg.Connection, away: bool, status: str
) -> None:
    await running(connection, "t")
    await connection.execute("UPDATE horsies_tasks SET started_at = started_at - interval '1 min'")
    await connection.execute("UPDATE horsies_tasks SET claimed_at = claimed_at - interval '1 min'")
    outage = Outage(WorkerResilienceConfig())
    if away:
        outage.noticed()
    config = RecoveryConfig(running_stale_threshold_ms=20_000, runner_heartbeat_interval_ms=10_000)
    await Recovery(config, Events(), outage).do(connection)
    assert await statuses(connection) == {"t": status}


async def test_what_waits_expires_during_that_time_too(connection: asyncpg.Connection) -> None:
    await connection.execute(
        "INSERT INTO horsies_tasks (id, task_name, queue_name, good_until) VALUES ('t', 'x', 'default', now())"
    )
    outage = Outage(WorkerResilienceConfig())
    outage.noticed()
    await Recovery(RecoveryConfig(), Events(), outage).do(connection)
    assert await statuses(connection) == {"t": "EXPIRED"}
