"""Small parts of the worker: wake-ups, back-off, log lines."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from types import ModuleType

import pytest
from hypothesis import given, strategies as st

from horsies import AppConfig, Horsies, PostgresConfig, WorkerResilienceConfig
from horsies.domain.errors import ConfigurationError
from horsies.run.events import Events
from horsies.run.log_format import EventText, HumanFormatter, JsonFormatter
from horsies.run.loops import Supervisor, Wake, backoff_s
from horsies.run.worker.lifespan import locator_of


async def test_a_wake_up_before_the_wait_is_remembered_once() -> None:
    wake = Wake()
    wake.set()
    wake.set()
    async with asyncio.timeout(10):
        await wake.wait(60)
    begin = asyncio.get_running_loop().time()
    await wake.wait(0.02)
    assert asyncio.get_running_loop().time() - begin >= 0.015


async def test_a_wake_up_ends_the_wait() -> None:
    wake = Wake()
    asyncio.get_running_loop().call_soon(wake.set)
    async with asyncio.timeout(10):
        await wake.wait(60)


@given(failures=st.integers(1, 10_000), initial=st.integers(100, 60_000), longest=st.integers(500, 300_000))
def test_a_back_off_doubles_within_its_bounds(failures: int, initial: int, longest: int) -> None:
    resilience = WorkerResilienceConfig(db_retry_initial_ms=min(initial, longest), db_retry_max_ms=longest)
    delay = backoff_s(resilience, failures)
    expected = min(resilience.db_retry_initial_ms * 2 ** min(failures - 1, 40), longest) / 1000
    assert max(0.1, 0.74 * expected) <= delay <= max(0.1, 1.26 * expected)


class Faulty:
    """A loop whose first steps fail."""

    name = "faulty"
    interval_s = 60.0
    step_timeout_s = 1.0

    def __init__(self, failures: int) -> None:
        self.wake = Wake()
        self.failures = failures
        self.done = asyncio.Event()
        self.discarded = 0
        self.lane = self

    def discard(self) -> None:
        self.discarded += 1

    async def step(self) -> None:
        if self.failures:
            self.failures -= 1
            raise ConnectionError("gone: postgresql://u:hunter2@h/d")
        self.done.set()


async def test_a_loop_outlives_its_failures_and_gives_its_connection_up(caplog: pytest.LogCaptureFixture) -> None:
    loop = Faulty(failures=2)
    supervisor = Supervisor(WorkerResilienceConfig(db_retry_initial_ms=100), Events(logging.getLogger("test")))
    with caplog.at_level(logging.INFO):
        supervisor.start([loop])  # type: ignore[list-item]
        async with asyncio.timeout(5):
            await loop.done.wait()
        await asyncio.sleep(0)
        await supervisor.stop_all()
    assert loop.discarded == 2
    assert [record.event for record in caplog.records] == ["loop failed", "loop failed", "loop recovered"]
    assert "hunter2" not in HumanFormatter(colour=False).format(caplog.records[0])
    assert supervisor.last_success.keys() == {"faulty"}


def record(event: str, level: int = logging.INFO, **fields: object) -> logging.LogRecord:
    made = logging.LogRecord("horsies.worker", level, __file__, 1, event, (), None)
    made.fields = fields
    return made


def test_a_line_for_people_begins_with_what_happened_to_what() -> None:
    line = HumanFormatter(colour=False).format(record("finished", task="send_mail", id="7f3a", took="34ms", child=None))
    assert line[9:] == "finished    send_mail took=34ms 7f3a"


def test_a_line_for_people_is_coloured_by_its_outcome_only() -> None:
    coloured = HumanFormatter(colour=True).format(record("failed", logging.WARNING, task="send_mail"))
    assert coloured[9:].startswith("\x1b[31mfailed")
    assert coloured.endswith("send_mail")


def test_output_of_user_code_stands_behind_a_bar() -> None:
    assert HumanFormatter(colour=False).format(record("stdout", id="7f3a", line="hello")).endswith("7f3a | hello")


def test_a_line_for_machines_is_one_object_with_everything() -> None:
    made = json.loads(JsonFormatter().format(record("failed", logging.WARNING, task="send_mail", id="7f3a", code=None)))
    assert made.pop("at") > 0
    assert made == {"level": "WARNING", "event": "failed", "task": "send_mail", "id": "7f3a"}


def test_an_application_is_found_by_the_module_that_holds_it(monkeypatch: pytest.MonkeyPatch) -> None:
    app = Horsies(AppConfig(broker=PostgresConfig(database_url="postgresql://h/d")))
    with pytest.raises(ConfigurationError, match="no module holds"):
        locator_of(app)
    module = ModuleType("shop_of_this_test")
    module.tasks = app  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, module.__name__, module)
    assert locator_of(app) == "shop_of_this_test:tasks"


HOSTILE = "x\n12:00:00 finished\r pay\x1b[2J\x9b\x7f\u202e\u2028 postgresql://bob:hunter2@db/shop"


@pytest.mark.parametrize("event", ["failed", "log", "stdout", HOSTILE])
def test_no_field_of_a_record_acts_on_a_terminal_or_begins_a_line(event: str) -> None:
    fields = dict.fromkeys(("task", "id", "line", "message", "logger", "code", "worker", "traceback"), HOSTILE)
    made = record(event, logging.ERROR, **fields, extra={HOSTILE: HOSTILE})
    made.exc_info = (ValueError, ValueError(HOSTILE), None)
    for text in (HumanFormatter(colour=False).format(made), f"00:00:00 {EventText(event, made.fields)}"):
        first, *others = text.split("\n")
        assert all(line.isprintable() and "hunter2" not in line for line in (first, *others))
        assert others
        assert all(line.startswith("    ") for line in others)
    line = JsonFormatter().format(made)
    assert line.isprintable()
    assert json.loads(line)["task"] == HOSTILE.replace("hunter2", "***")
    assert "hunter2" not in line
