"""`app.on` and `app.trace`: what they accept, the one error for what they do not, and what they add to a row."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from opentelemetry.sdk.trace import TracerProvider

from horsies import AppConfig, Horsies, PostgresConfig, TaskError, TaskFailed, TaskResult, WorkerStarted
from horsies.domain.errors import ConfigurationError
from horsies.domain.retry import RetryRule
from horsies.domain.trace import following, links_of, run_context, trace_of, with_trace
from horsies.run.events import Events
from horsies.run.worker import hook_threads
from horsies.run.worker.hook_threads import Hooks
from horsies.testing import inline

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


PLAIN = '{"retry_policy":null,"good_until":null}'
TRACE = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}


def test_without_a_call_of_trace_nothing_is_loaded_and_no_row_changes() -> None:
    program = """
import sys
from horsies import AppConfig, Horsies, PostgresConfig, TaskError, TaskResult
from horsies.run.worker.worker import Worker
app = Horsies(AppConfig(broker=PostgresConfig(database_url="postgresql://u@db/app")))
@app.task("work")
def work() -> TaskResult[None, TaskError]:
    return TaskResult(ok=None)
work.to_send().prepare(suppressed=False, sent_at=__import__("datetime").datetime.now(__import__("datetime").UTC))
print([name for name in sys.modules if name.startswith("opentelemetry")])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_where_it_is_not_installed_one_error_says_how_to_install_it() -> None:
    program = """
import sys
sys.modules["opentelemetry"] = None
from horsies import AppConfig, Horsies, PostgresConfig
app = Horsies(AppConfig(broker=PostgresConfig(database_url="postgresql://u@db/app")))
try:
    app.trace()
except ValueError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.startswith("error: app.trace() needs OpenTelemetry")
    assert "pip install '.[otel]'" in done.stdout


def test_a_trace_changes_no_retry_rule() -> None:
    policy = '{"retry_policy":{"max_retries":2,"auto_retry_for":["X"],"intervals":[1]},"good_until":null}'
    assert RetryRule.from_text(with_trace(policy, TRACE)) == RetryRule.from_text(policy)


@pytest.mark.parametrize(
    "options",
    [None, PLAIN, "", "{", "[]", '{"trace":', '{"trace":[]}', '{"trace":null}', '"a \\"trace\\": b"', "[" * 9_999],
)
def test_options_without_a_readable_trace_have_none(options: str | None) -> None:
    assert trace_of(options) == {}


def test_what_follows_a_run_links_to_it_and_keeps_the_trace() -> None:
    options = with_trace(PLAIN, TRACE)
    again = following(options, "run-1", None, "run-2", "run-1")
    assert trace_of(again) == {**TRACE, "links": ["run-1", "run-2"]}
    assert links_of(trace_of(following(again, "run-3"))) == ["run-3"]
    assert following(PLAIN, None) == PLAIN
    assert len(links_of(trace_of(following(options, *map(str, range(100)))))) == 32
    assert run_context("q", 1, PLAIN) == ("q", 1, None)
    assert run_context("q", 2, options) == ("q", 2, options)


def test_tasks_that_run_inline_need_no_tracer(app: Horsies) -> None:
    app.trace(TracerProvider())

    @app.task("work")
    def work() -> TaskResult[None, TaskError]:
        return TaskResult(ok=None)

    with inline(app):
        assert work.send().unwrap().get().is_ok()
