"""What a real worker shows to Prometheus and to Kubernetes; `horsies metrics` without any worker."""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from blackhole_proxy import BlackholeProxy
from forked_commands import Command, run_command
from scraping import Samples, get, scrape, until, until_ready, value
from test_worker import HERE, Table, Worker, options

from horsies import __version__
from horsies.operations.pipeline import apply, preview
from horsies.operations.selection import Selection
from horsies.operations.target import Actor
from horsies.operations.verbs import VERBS
from horsies.run.metrics import worker_metrics as probes


def url_of(worker: Worker) -> str:
    return str(worker.wait_for("metrics")["url"]).removesuffix("/metrics")


def runs(samples: Samples, task: str, outcome: str, kind: str = "") -> float | None:
    return value(samples, "horsies_task_runs_total", task=task, queue="default", outcome=outcome, kind=kind)


async def test_each_outcome_is_counted_with_its_times_and_restarts_lose_nothing(
    table: Table, start: Callable[..., Worker], tmp_path: Path
) -> None:
    worker = start("--processes", "2", "--metrics-port", "0")
    url = url_of(worker)
    for task_id in [await table.send("add", 1, 2) for _ in range(20)]:
        await table.done(task_id)
    late = datetime.now(UTC) - timedelta(seconds=40)
    await table.done(await table.send("pause", 0.3, sent_at=late, enqueued_at=late))
    await table.done(await table.send("refuse"))
    await table.done(await table.send("hang"))
    flaky = await table.send("flaky", str(tmp_path / "runs"), 1, max_retries=2, task_options=options(["TRY_AGAIN"]))
    await table.done(flaky)
    await table.done(await table.send("leave", 3))  # its child exits under it
    await table.done(await table.send("nothing_async"))
    samples = await until(url, lambda samples: runs(samples, "nothing_async", "completed") == 1)
    assert runs(samples, "add", "completed") == 20
    assert runs(samples, "refuse", "failed", "error") == 1
    assert runs(samples, "hang", "failed", "timeout") == 1
    assert runs(samples, "leave", "failed", "crashed") == 1
    assert (runs(samples, "flaky", "retried", "error"), runs(samples, "flaky", "completed")) == (1, 1)
    pause = {"task": "pause", "queue": "default"}
    assert value(samples, "horsies_task_run_seconds_bucket", le="0.25", **pause) == 0
    assert value(samples, "horsies_task_run_seconds_bucket", le="1", **pause) == 1
    assert 40 < (value(samples, "horsies_task_wait_seconds_sum", **pause) or 0) < 50
    assert value(samples, "horsies_task_wait_seconds_count", task="add", queue="default") == 20
    assert value(samples, "horsies_task_run_seconds_count", task="leave", queue="default") == 0
    assert value(samples, "horsies_child_exits_total", how="crashed") == 1
    assert (value(samples, "horsies_loop_duration_seconds_count", loop="claim") or 0) > 1
    builds = [dict(labels) for (name, labels) in samples if name == "horsies_build_info"]
    assert [build["version"] for build in builds] == [__version__]
    samples = await until(url, lambda samples: value(samples, "horsies_worker_children") == 2)
    assert value(samples, "horsies_worker_slots", kind="sync") == 2
    assert value(samples, "horsies_worker_slots", kind="async") == 200
    assert value(samples, "horsies_worker_slots_used", kind="sync") == 0
    assert value(samples, "horsies_worker_draining") == 0


async def test_running_tasks_slots_heartbeats_a_lost_claim_and_what_sweeps_changed_show(
    table: Table, start: Callable[..., Worker], tmp_path: Path
) -> None:
    await table.send("add", 1, 1, good_until=datetime.now(UTC) - timedelta(seconds=5))
    worker = start("--metrics-port", "0", TEST_BEAT_MS="1000", TEST_RECOVERY='{"check_interval_ms": 1000}')
    url = url_of(worker)
    samples = await until(url, lambda samples: value(samples, "horsies_swept_total", change="expired") == 1)
    assert (value(samples, "horsies_sweep_duration_seconds_count", rule="recovery") or 0) >= 1
    assert value(samples, "horsies_swept_total", change="retried") == 0
    os.mkfifo(tmp_path / "go")
    task_id = await table.send("wait_for_file", str(tmp_path / "started"), str(tmp_path / "go"))
    await table.until(task_id, "RUNNING")
    samples = await until(url, lambda samples: (value(samples, "horsies_heartbeats_total") or 0) >= 1)
    assert value(samples, "horsies_worker_tasks", stage="running") == 1
    assert value(samples, "horsies_worker_slots_used", kind="sync") == 1
    assert (value(samples, "horsies_worker_memory_bytes") or 0) > 10_000_000
    await table.connection.execute("UPDATE horsies_tasks SET claimed_at = now() WHERE id = $1", task_id)
    lost = {"task": "wait_for_file", "queue": "default", "at": "beat"}
    await until(url, lambda samples: value(samples, "horsies_claims_lost_total", **lost) == 1)


async def test_readiness_follows_a_drain_and_the_stop(
    table: Table, start: Callable[..., Worker], tmp_path: Path
) -> None:
    worker = start("--metrics-port", "0")
    url = url_of(worker)
    assert await get(f"{url}/readyz") == (200, "ready\n")
    os.mkfifo(tmp_path / "go")
    task_id = await table.send("wait_for_file", str(tmp_path / "started"), str(tmp_path / "go"))
    await table.until(task_id, "RUNNING")
    worker.process.send_signal(signal.SIGTERM)
    await until_ready(url, 503, "stopping")
    assert await get(f"{url}/healthz") == (200, "alive\n")
    assert value(await scrape(url), "horsies_worker_draining") == 1
    await asyncio.to_thread((tmp_path / "go").write_text, "go")
    assert await asyncio.to_thread(worker.end) == 0
    assert (await table.row(task_id))["status"] == "COMPLETED"


async def test_a_worker_that_waits_for_its_database_is_alive_and_not_ready(
    database: str, start: Callable[..., Worker]
) -> None:
    async with BlackholeProxy(database) as proxy:
        proxy.refuse(1_000)
        worker = start("--metrics-port", "0", ready=False, HORSIES_DATABASE_URL=proxy.url)
        url = await asyncio.to_thread(url_of, worker)
        assert "waiting for the database" in await until_ready(url, 503, "starting")
        assert await get(f"{url}/healthz") == (200, "alive\n")
        assert value(await scrape(url), "horsies_worker_processes") == 1
        proxy.refuse(0)
        await until_ready(url, 200, "ready")
        connected = {"name": "horsies_loop_duration_seconds_count", "loop": "beat"}
        await until(url, lambda samples: bool(value(samples, **connected)))
        proxy.refuse(1_000)
        proxy.cut()
        await until_ready(url, 503, "the database cannot be reached")
        proxy.refuse(0)
        await until_ready(url, 200, "ready")
        again = {"name": "horsies_database_reconnects_total", "use": "beat"}
        await until(url, lambda samples: value(samples, **again) == 1)
        # Not the beat: its next one may be due only after the database is back.
        failures = (
            number for (name, _), number in (await scrape(url)).items() if name == "horsies_loop_failures_total"
        )
        assert sum(failures) >= 1


def run_worker(*given: str, url: str) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, "HORSIES_DATABASE_URL": url}
    return run_command(["worker", "worker_app:app", *given], env=environ, cwd=HERE, text=True)


def test_a_port_in_use_is_one_error_before_anything_starts() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        ended = run_worker("--metrics-port", port, url="postgresql://nobody@127.0.0.1:1/none")
    assert ended.returncode == 1
    assert ended.stderr.startswith(f"error[HRS-206]: cannot listen at 127.0.0.1:{port}, as --metrics-port {port} asks")
    assert "Traceback" not in ended.stderr
    assert "waiting for the database" not in ended.stderr


async def test_readiness_of_a_worker_in_a_web_process_follows_orders_and_the_schema(
    database: str, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probes, "_SCHEMA_EVERY_S", 0.0)
    monkeypatch.setenv("HORSIES_DATABASE_URL", database)
    monkeypatch.syspath_prepend(str(HERE))
    monkeypatch.delitem(sys.modules, "worker_app", raising=False)
    app = importlib.import_module("worker_app").app
    async with app.run_worker(metrics_port=0) as worker:
        url = worker.probes.url
        assert await get(f"{url}/readyz") == (200, "ready\n")
        worker_id = worker.identity.worker_id
        for verb, status, reason in (("drain", 503, "draining, by an operator's order"), ("resume", 200, "ready")):
            found = await preview(table.connection, VERBS["worker", verb], Selection.of_ids([worker_id]))
            await apply(table.connection, found, Actor("ops", "bastion"), None)
            await until_ready(url, status, reason)
        await table.connection.execute(
            "INSERT INTO horsies_console_schema (version, name) VALUES (999, 'of a later release')"
        )
        assert "the schema does not fit" in await until_ready(url, 503, "999")
        await table.connection.execute("DELETE FROM horsies_console_schema WHERE version = 999")
        await until_ready(url, 200, "ready")
    assert worker.lost == []


async def test_it_serves_until_sigterm_without_an_application(database: str) -> None:
    process: Command[str] = Command(
        ["metrics", "--port", "0", "--log-format", "json"],
        env={**os.environ, "HORSIES_DATABASE_URL": database},
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        url = json.loads(process.stderr.readline())["url"].removesuffix("/metrics")
        samples = await scrape(url)
        assert value(samples, "horsies_up") == 1
        assert value(samples, "horsies_workers", state="alive") == 0
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
        assert json.loads(process.stderr.readline())["event"] == "stopping"
    finally:
        process.kill()
        process.communicate()
