"""Task modules and the registry; `app.on` and `app.trace`: what they accept, and the one error for what they do not."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
import threading
import types
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from task_apps import make_app

from horsies import (
    AppConfig,
    ErrorCode,
    Horsies,
    MultipleValidationErrors,
    PostgresConfig,
    TaskError,
    TaskFailed,
    TaskResult,
    TaskSendErrorCode,
    WorkerStarted,
)
from horsies.broker import PostgresBroker
from horsies.domain.errors import ConfigurationError, RegistryError
from horsies.domain.retry import RetryRule
from horsies.domain.trace import following, links_of, run_context, trace_of, with_trace
from horsies.run.events import Events
from horsies.run.worker import hook_threads
from horsies.run.worker.hook_threads import Hooks
from horsies.task import sends_suppressed
from horsies.testing import inline


def touch(directory: Path, *names: str) -> None:
    for name in names:
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")


def test_globs_give_absolute_files_without_tests_each_once_and_in_order(project: Path) -> None:
    touch(
        project,
        *("jobs/b.py", "jobs/a.py", "jobs/deep/c.py", "jobs/notes.txt", "other/d.py"),
        *("jobs/test_a.py", "jobs/a_test.py", "jobs/conftest.py"),
    )
    (project / "jobs" / "dir.py").mkdir()
    found = make_app().expand_module_globs(["jobs/**/*.py", "shop.tasks", "jobs/a.py", str(project / "other" / "*.py")])
    assert found == [
        *(str(project / "jobs" / name) for name in ("a.py", "b.py", "deep/c.py")),
        "shop.tasks",
        str(project / "other" / "d.py"),
    ]


def test_exclusions_replace_the_default_ones_and_match_name_or_path(project: Path) -> None:
    touch(project, "jobs/a.py", "jobs/test_a.py", "jobs/old/b.py")
    found = make_app().expand_module_globs(["jobs/**/*.py"], exclude=["*/old/*"])
    assert found == [str(project / "jobs" / "a.py"), str(project / "jobs" / "test_a.py")]
    assert make_app().expand_module_globs(["jobs/*.py"], exclude=[]) == found


def test_a_second_list_of_modules_replaces_the_first_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    app = make_app()
    app.discover_tasks(["one", "two"])
    with caplog.at_level(logging.WARNING, logger="horsies"):
        app.discover_tasks(["three"])
    assert app.get_discovered_task_modules() == ["three"]
    assert "replaced" in caplog.text


def test_given_modules_are_imported_exactly_without_what_lies_below(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    touch(project, "exact/below.py")
    (project / "exact" / "__init__.py").write_text("loaded = True")
    monkeypatch.syspath_prepend(project)
    app = make_app()
    app.discover_tasks(["no_such_package"])
    app.import_task_modules(["exact"])
    assert "exact" in sys.modules
    assert "exact.below" not in sys.modules


def test_all_modules_that_fail_are_named() -> None:
    app = make_app()
    app.discover_tasks(["no_such_one"])
    with pytest.raises(ConfigurationError, match="no_such_one"):
        app.import_task_modules()
    app.discover_tasks(["no_such_one", "no_such_two"])
    with pytest.raises(MultipleValidationErrors) as caught:
        app.import_task_modules()
    assert len(caught.value.report.errors) == 2


def test_an_application_has_one_broker_that_knows_it() -> None:
    app = make_app(resend_on_transient_err=True)
    brokers: list[PostgresBroker] = []
    threads = [threading.Thread(target=lambda: brokers.append(app.get_broker())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({id(broker) for broker in brokers}) == 1
    assert brokers[0].app is app


def test_a_broker_that_cannot_be_made_is_an_error_of_the_send_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_threads_left(*_args: object, **_kwargs: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr("horsies.app.PostgresBroker", no_threads_left)
    app = make_app()
    with pytest.raises(ConfigurationError, match="can't start new thread") as caught:
        app.get_broker()
    assert caught.value.code is ErrorCode.BROKER_INIT_FAILED
    task = app.task("nothing", nothing)
    for sent in (task.send(), *app.send_many([task.to_send(), task.to_send()])):
        error = sent.unwrap_err()
        assert (error.code, error.retryable) == (TaskSendErrorCode.ENQUEUE_FAILED, False)
        assert error.payload is not None


def nothing() -> TaskResult[None, TaskError]:
    return TaskResult(ok=None)


def test_sends_are_suppressed_by_the_app_by_the_environment_and_by_an_import(monkeypatch: pytest.MonkeyPatch) -> None:
    app = make_app()
    assert not app.are_sends_suppressed()
    app.suppress_sends()
    assert app.are_sends_suppressed()
    app.suppress_sends(False)
    assert not app.are_sends_suppressed()
    monkeypatch.setenv("TASKLIB_SUPPRESS_SENDS", "1")
    assert app.are_sends_suppressed()
    monkeypatch.delenv("TASKLIB_SUPPRESS_SENDS")
    with sends_suppressed():
        with sends_suppressed():
            assert app.are_sends_suppressed()
        assert app.are_sends_suppressed()
    assert not app.are_sends_suppressed()


def test_an_import_suppresses_the_sends_of_its_own_thread_only() -> None:
    app = make_app()
    seen: list[bool] = []
    with sends_suppressed():
        other = threading.Thread(target=lambda: seen.append(app.are_sends_suppressed()))
        other.start()
        other.join()
    assert seen == [False]


def report(day: int) -> TaskResult[int, TaskError]:
    return TaskResult(ok=day)


def other(day: int) -> TaskResult[int, TaskError]:
    return TaskResult(ok=-day)


def test_an_unknown_name_is_a_registry_error_and_a_key_error() -> None:
    app = make_app()
    app.task("send_report", report)
    with pytest.raises(KeyError) as caught:
        app.tasks["send_raport"]
    assert isinstance(caught.value, RegistryError)
    assert caught.value.code is ErrorCode.TASK_NOT_REGISTERED
    assert "task 'send_raport' is not registered; did you mean 'send_report'?" in str(caught.value)


def test_the_registry_is_a_mapping() -> None:
    app = make_app()
    first, second = app.task("one", report), app.task("two", other)
    assert dict(app.tasks) == {"one": first, "two": second}
    assert len(app.tasks) == 2
    assert "one" in app.tasks
    assert "three" not in app.tasks
    assert app.tasks.get("three") is None


def test_the_same_name_in_another_place_is_refused_and_both_places_are_named() -> None:
    app = make_app()
    first = app.task("send_report", report)
    with pytest.raises(RegistryError, match="two tasks named 'send_report'") as caught:
        app.task("send_report", other)
    assert caught.value.code is ErrorCode.TASK_DUPLICATE_NAME
    assert caught.value.location is not None
    assert caught.value.location.line == other.__code__.co_firstlineno
    assert f"{__file__}:{report.__code__.co_firstlineno}" in caught.value.notes[0]
    assert app.tasks["send_report"] is first


MODULE = """
from __future__ import annotations
from horsies import TaskError, TaskResult

def define(app):
    @app.task("twice")
    def twice() -> TaskResult[int, TaskError]:
        return TaskResult(ok=2)
    return twice
"""


def load(path: Path) -> Any:
    module = types.ModuleType(path.stem)
    exec(compile(path.read_text(), str(path), "exec"), vars(module))
    return module


def test_a_module_that_is_imported_twice_keeps_its_first_task(tmp_path: Path) -> None:
    path = tmp_path / "tasks.py"
    path.write_text(MODULE)
    app: Horsies = make_app()
    first, again = load(path).define(app), load(path).define(app)
    assert app.tasks["twice"] is first
    assert again().ok_value == 2


def test_the_same_file_by_another_path_is_the_same_place(tmp_path: Path) -> None:
    path, link = tmp_path / "tasks.py", tmp_path / "link.py"
    path.write_text(MODULE)
    link.symlink_to(path)
    app = make_app()
    first = load(path).define(app)
    load(link).define(app)
    assert app.tasks["twice"] is first


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
