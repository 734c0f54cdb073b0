"""The application of test_faults.py: short thresholds, and each run of a task adds a line to a ledger."""

from __future__ import annotations

import os
import time
from pathlib import Path

from horsies import AppConfig, Horsies, PostgresConfig, RecoveryConfig, RetryPolicy, TaskError, TaskResult
from horsies.config.app import WorkerResilienceConfig

app = Horsies(
    AppConfig(
        broker=PostgresConfig(database_url=os.environ["HORSIES_DATABASE_URL"]),
        prefetch_buffer=int(os.environ.get("TEST_PREFETCH", "0")),
        claim_lease_ms=2_000,
        cluster_wide_cap=int(os.environ["TEST_CLUSTER_CAP"]) if "TEST_CLUSTER_CAP" in os.environ else None,
        recovery=RecoveryConfig(
            runner_heartbeat_interval_ms=1_000,
            claimer_heartbeat_interval_ms=1_000,
            running_stale_threshold_ms=int(os.environ.get("TEST_STALE_MS", "2000")),
            claimed_stale_threshold_ms=2_000,
            finalizing_stale_threshold_ms=2_000,
            crashed_worker_recovery_grace_ms=1_000,
            check_interval_ms=1_000,
        ),
        resilience=WorkerResilienceConfig(notify_poll_interval_ms=1_000),
    )
)
AGAIN = RetryPolicy.fixed([1], auto_retry_for=["TRY_AGAIN", "WORKER_CRASHED"], jitter=False)


def note(ledger: str, task: str) -> int:
    """Write one line for this run, in one write; returns how many runs this task has had."""
    with Path(ledger).open("a") as file:
        file.write(f"{task} {os.getpid()}\n")
    return [line.split()[0] for line in Path(ledger).read_text().splitlines()].count(task)


@app.task("work", retry_policy=AGAIN)
def work(ledger: str, task: str) -> TaskResult[int, TaskError]:
    return TaskResult(ok=note(ledger, task))


@app.task("flaky", retry_policy=AGAIN)
def flaky(ledger: str, task: str) -> TaskResult[int, TaskError]:
    """Fails only in its first run."""
    runs = note(ledger, task)
    return TaskResult(ok=runs) if runs > 1 else TaskResult(err=TaskError(error_code="TRY_AGAIN"))


@app.task("nap", retry_policy=AGAIN)
def nap(ledger: str, task: str) -> TaskResult[int, TaskError]:
    runs = note(ledger, task)
    time.sleep(0.1)
    return TaskResult(ok=runs)


@app.task("hold", retry_policy=AGAIN)
def hold(ledger: str, task: str, go: str) -> TaskResult[str, TaskError]:
    """Runs until the test writes to the pipe `go`."""
    note(ledger, task)
    return TaskResult(ok=Path(go).read_text())


@app.task("length")
def length(text: TaskResult[str, TaskError], ledger: str, task: str) -> TaskResult[int, TaskError]:
    note(ledger, task)
    return TaskResult(ok=len(text.ok_value))
