"""`app.on`: what it accepts, and the one error for what it does not."""

from __future__ import annotations

import asyncio
import logging
import threading
from pathlib import Path

import pytest

from horsies import AppConfig, Horsies, PostgresConfig, TaskFailed, WorkerStarted
from horsies.domain.errors import ConfigurationError
from horsies.run.events import Events
from horsies.run.worker import hook_threads
from horsies.run.worker.hook_threads import Hooks

STARTED = WorkerStarted("w", "host", 1, ("default",))


@pytest.fixture
def app() -> Horsies:
    return Horsies(AppConfig(broker=PostgresConfig(database_url="postgresql://u@db/app")))


def test_a_hook_is_returned_unchanged_and_kept_once(app: Horsies) -> None:
    @app.on("task_failed")
    def hook(event: TaskFailed) -> None: ...

    assert app.on("task_failed", hook) is hook
    assert list(app.hooks) == [(TaskFailed, hook)]


def test_an_unknown_event_is_one_error_at_its_line(app: Horsies) -> None:
    with pytest.raises(ConfigurationError) as refused:
        app.on("task_fails")  # type: ignore[call-overload]
    text = str(refused.value)
    assert text.startswith("error: there is no event 'task_fails'")
    assert f"--> {Path(__file__)}:" in text
    assert 'app.on("task_fails")' in text
    assert "did you mean 'task_failed'?" in text
    with pytest.raises(ConfigurationError, match="the events are task_failed, task_retried, worker_started"):
        app.on(7)  # type: ignore[call-overload]


def test_a_hook_that_takes_no_event_is_one_error_at_its_definition(app: Horsies) -> None:
    def hook() -> None: ...

    with pytest.raises(ConfigurationError) as refused:
        app.on("worker_stopped", hook)
    text = str(refused.value)
    assert "the hook 'hook' for 'worker_stopped' cannot be called with one argument" in text
    assert f"--> {Path(__file__)}:{hook.__code__.co_firstlineno}" in text
    assert "def hook(event: WorkerStopped)" in text
    with pytest.raises(ConfigurationError, match="cannot be called"):
        app.on("worker_stopped", "a name")  # type: ignore[type-var]


async def test_an_async_hook_that_takes_too_long_is_cancelled_and_the_next_event_is_told(
    app: Horsies, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(hook_threads, "_LIMIT_S", 0.05)
    calls: list[str] = []

    @app.on("worker_started")
    async def slow(event: WorkerStarted) -> None:
        calls.append("begun")
        await asyncio.sleep(60 if len(calls) == 1 else 0)
        calls.append("ended")

    hooks = Hooks(app.hooks, Events(), "w")
    hooks.notify(STARTED)
    hooks.notify(STARTED)
    await hooks.close(10)
    assert calls == ["begun", "begun", "ended"]
    (record,) = [record for record in caplog.records if record.event == "hook failed"]
    assert record.fields["error"] == "it did not end within 0.05 s"  # type: ignore[attr-defined]


async def test_of_the_events_of_a_hanging_hook_only_so_many_wait(
    app: Horsies, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(hook_threads, "_MOST_WAITING", 3)
    monkeypatch.setattr(hook_threads, "_LIMIT_S", 0.0)
    begun, go, told = threading.Event(), threading.Event(), []

    @app.on("worker_started")
    def hook(event: WorkerStarted) -> None:
        begun.set()
        go.wait(20)
        told.append(event)

    with caplog.at_level(logging.WARNING):
        hooks = Hooks(app.hooks, Events(), "w")
        hooks.notify(STARTED)
        await asyncio.to_thread(begun.wait, 20)
        for _ in range(10):
            hooks.notify(STARTED)
        go.set()
        await hooks.close(10)
    assert len(told) == 4
    assert [record.event for record in caplog.records] == [
        "hook hangs",
        "hook falls behind",
        "hook has caught up",
    ]
