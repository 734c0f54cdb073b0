"""Tracing is off unless the application asks for it; then the trace stands in task_options, and nowhere else."""

from __future__ import annotations

import subprocess
import sys

import pytest
from opentelemetry.sdk.trace import TracerProvider

from horsies import AppConfig, Horsies, PostgresConfig, TaskError, TaskResult
from horsies.domain.retry import RetryRule
from horsies.domain.trace import following, links_of, run_context, trace_of, with_trace
from horsies.testing import inline

PLAIN = '{"retry_policy":null,"good_until":null}'
TRACE = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}


@pytest.fixture
def app() -> Horsies:
    return Horsies(AppConfig(broker=PostgresConfig(database_url="postgresql://u@db/app")))


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
