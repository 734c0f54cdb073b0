"""Small parts of the worker: wake-ups, back-off, log lines, kept output, queues, titles and frames of children."""

from __future__ import annotations

import asyncio
import json
import logging
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic
from types import ModuleType

import pytest
from hypothesis import given, strategies as st
from task_apps import make_app, make_custom_app

from horsies import AppConfig, Horsies, PostgresConfig, WorkerResilienceConfig
from horsies.domain.errors import ConfigurationError
from horsies.lifecycle.claim_token import Token
from horsies.run.events import Events
from horsies.run.frames import BrokenFrameError, FrameReader, pack
from horsies.run.log_format import EventText, HumanFormatter, JsonFormatter
from horsies.run.loops import Supervisor, Wake, backoff_s
from horsies.run.pool.job_queue import PAUSE_S, Title
from horsies.run.pool.output import RING_BYTES, OutputRing, OutputRings
from horsies.run.settings import Identity, WorkerSettings
from horsies.run.worker.claim_rules import ClaimRules
from horsies.run.worker.snapshots import MB, ContainerMemory, children_memory, container_memory
from horsies.run.worker.worker import locator_of


async def test_a_wake_up_before_the_wait_is_remembered_once_and_one_during_it_ends_it() -> None:
    wake = Wake()
    wake.set()
    wake.set()
    async with asyncio.timeout(10):
        await wake.wait(60)
        again = asyncio.create_task(wake.wait(60))
        await asyncio.sleep(0)
        assert not again.done()
        wake.set()
        await again


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
        self.dedicated = self

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
        async with asyncio.timeout(30):
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


def token(number: int) -> Token:
    return Token(f"task-{number}", "worker", datetime(2026, 1, 1, tzinfo=UTC))


def texts(ring: OutputRing, after: int = 0, most: int = 1_000_000) -> list[str]:
    return [line[-1] for line in ring.since(after, most)["lines"]]


def test_a_follower_gets_each_line_once() -> None:
    ring = OutputRing()
    ring.add("stdout", "one")
    ring.add("stderr", "two")
    assert texts(ring) == ["one", "two"]
    ring.add("stdout", "three")
    assert texts(ring, after=2) == ["three"]
    assert ring.since(3, 1_000) == {"lines": [], "last": 3, "left_out": 0}


def test_what_has_no_room_is_counted() -> None:
    ring = OutputRing()
    for number in range(10_000):
        ring.add("stdout", f"{number:0400}")
    found = ring.since(0, 1_000_000)
    assert sum(len(line[-1]) for line in found["lines"]) < RING_BYTES
    assert found["left_out"] + len(found["lines"]) == found["last"] == 10_000
    cut = ring.since(9_990, 1_200)
    assert [line[0] for line in cut["lines"]] == [9_999, 10_000]
    assert cut["left_out"] == 8


def test_the_tail_is_made_of_whole_lines() -> None:
    ring = OutputRing()
    for number in range(5):
        ring.add("stdout", f"line {number}")
    assert ring.tail(14) == "line 3\nline 4"
    assert ring.tail(13) == "line 4"
    assert ring.tail(0) == ""


def test_tasks_that_have_ended_keep_their_last_lines_for_a_while() -> None:
    rings = OutputRings()
    for number in range(20):
        rings.add(token(number), "stdout", "x")
        rings.ended(token(number))
    rings.ended(token(99))  # it has written nothing
    kept = [number for number in range(20) if rings.of(token(number)) is not None]
    assert kept == list(range(4, 20))
    assert rings.of(token(99)) is None


def served(queues: tuple[str, ...] = (), but: tuple[str, ...] = (), *, custom: bool = True) -> list[str]:
    settings = WorkerSettings("shop:app", queues=queues, except_queues=but)
    return list(ClaimRules(make_custom_app() if custom else make_app(), settings, Identity()).queues)


@pytest.mark.parametrize(
    ("queues", "but", "expected"),
    [
        ((), (), ["mail", "reports"]),
        (("reports", "mail"), (), ["mail", "reports"]),
        (("reports",), (), ["reports"]),
        ((), ("mail",), ["reports"]),
        (("mail", "reports"), ("reports",), ["mail"]),
    ],
)
def test_a_worker_serves_what_it_is_told_in_the_order_of_priority(
    queues: tuple[str, ...], but: tuple[str, ...], expected: list[str]
) -> None:
    assert served(queues, but) == expected


def test_without_queues_of_its_own_an_application_has_the_default_one() -> None:
    assert served(custom=False) == served(("default",), custom=False) == ["default"]


@pytest.mark.parametrize(
    ("queues", "but", "words"),
    [
        (("mial",), (), r"no queue 'mial'[^$]*did you mean 'mail'\?"),
        ((), ("bulk",), r"no queue 'bulk'[^$]*it has mail, reports"),
        (("mail",), ("mail",), "no queue is left for this worker to serve"),
    ],
)
def test_a_name_that_is_no_queue_and_a_choice_of_none_are_refused(
    queues: tuple[str, ...], but: tuple[str, ...], words: str
) -> None:
    with pytest.raises(ConfigurationError, match=words):
        served(queues, but)


class Loop:
    """Keeps the only timer that a title may have."""

    def __init__(self) -> None:
        self.timers: list[Callable[[], None]] = []

    def call_later(self, _delay_s: float, callback: Callable[[], None]) -> object:
        self.timers.append(callback)
        return callback

    def let_time_pass(self) -> None:
        due, self.timers = self.timers, []
        for callback in due:
            callback()


@pytest.fixture
def loop() -> Loop:
    return Loop()


@pytest.fixture
def running() -> dict[str, float]:
    return {}


@pytest.fixture
def shown() -> list[str]:
    return []


@pytest.fixture
def title(loop: Loop, running: dict[str, float], shown: list[str]) -> Title:
    return Title(loop, "idle", running, lambda _key: "report", shown.append)  # type: ignore[arg-type]


def test_short_jobs_share_one_timer_and_change_nothing(
    title: Title, loop: Loop, running: dict[str, float], shown: list[str]
) -> None:
    for key in ("a", "b", "c"):
        running[key] = monotonic()
        title.begun()
        del running[key]
        title.ended()
    assert len(loop.timers) == 1
    loop.let_time_pass()
    assert shown == []
    assert loop.timers == []


def test_a_long_job_is_shown_once_and_its_end_too(
    title: Title, loop: Loop, running: dict[str, float], shown: list[str]
) -> None:
    running["0199a1b2-7f3a9c01/12"] = monotonic() - PAUSE_S
    title.begun()
    loop.let_time_pass()
    assert shown == ["idle · report …7f3a9c01"]
    assert loop.timers == [], "nothing to look for while the same job runs on"
    running.clear()
    title.ended()
    loop.let_time_pass()
    assert shown[1:] == ["idle"]


def test_several_long_jobs_are_counted(title: Title, loop: Loop, running: dict[str, float], shown: list[str]) -> None:
    running.update(a=monotonic() - PAUSE_S, b=monotonic() - PAUSE_S, c=monotonic())
    title.begun()
    loop.let_time_pass()
    assert shown == ["idle · 2 tasks"]
    assert len(loop.timers) == 1, "the third has to be looked at again"


messages = st.lists(st.tuples(st.integers(), st.text(max_size=50), st.none() | st.booleans()), max_size=4)


@given(st.lists(messages, max_size=5), st.data())
def test_messages_survive_every_cut(batches: list[list[tuple[object, ...]]], data: st.DataObject) -> None:
    stream = b"".join(pack(batch) for batch in batches)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    reader = FrameReader()
    received = [
        message
        for begin, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)
        for message in reader.feed(stream[begin:end])
    ]
    assert received == [message for batch in batches for message in batch]


@pytest.mark.parametrize(
    "garbage",
    [
        b"hello world",
        b"\x04\x00\x00\x00abcd",
        b"\x00\x00\x00\x00",
        b"\x05\x00\x00\x00i\x05\x00\x00\x00",
        b"\x02\x00\x00\x00i\x01",
    ],
)
def test_bytes_that_are_no_frame_are_refused(garbage: bytes) -> None:
    with pytest.raises(BrokenFrameError):
        FrameReader().feed(garbage)


NO_LIMIT_1 = 0x7FFFFFFFFFFFF000


def group_2(path: Path, limit_mb: int | None, used_mb: int, cache_mb: int = 0) -> None:
    path.mkdir(parents=True, exist_ok=True)
    (path / "memory.max").write_text("max\n" if limit_mb is None else f"{limit_mb * MB}\n")
    (path / "memory.current").write_text(f"{used_mb * MB}\n")
    (path / "memory.stat").write_text(f"anon 1\ninactive_file {cache_mb * MB}\nactive_file 9\n")


def group_1(path: Path, limit: int, used_mb: int, cache_mb: int = 0) -> None:
    path.mkdir(parents=True, exist_ok=True)
    (path / "memory.limit_in_bytes").write_text(f"{limit}\n")
    (path / "memory.usage_in_bytes").write_text(f"{used_mb * MB}\n")
    (path / "memory.stat").write_text(f"inactive_file 7\ntotal_inactive_file {cache_mb * MB}\n")


def read(tmp_path: Path, membership: str) -> ContainerMemory | None:
    (tmp_path / "cgroup").write_text(membership)
    return container_memory(tmp_path / "cgroup", tmp_path / "mount")


def test_in_a_container_the_root_of_the_mount_has_the_limit_and_the_file_cache_does_not_count(tmp_path: Path) -> None:
    group_2(tmp_path / "mount", 1_000, 900, cache_mb=300)
    assert read(tmp_path, "0::/\n") == ContainerMemory(600, 1_000)


def test_the_group_that_has_least_left_counts(tmp_path: Path) -> None:
    group_2(tmp_path / "mount/pod", 500, 450)
    group_2(tmp_path / "mount/pod/worker", 400, 100)
    group_2(tmp_path / "mount/pod/worker/child", None, 90)
    assert read(tmp_path, "0::/pod/worker/child\n") == ContainerMemory(450, 500)


def test_without_a_limit_there_is_none(tmp_path: Path) -> None:
    group_2(tmp_path / "mount/service", None, 450)
    group_1(tmp_path / "mount/memory/service", NO_LIMIT_1, 450)
    assert read(tmp_path, "4:memory:/service\n0::/service\n") is None
    assert read(tmp_path, "1:name=systemd:/service\n") is None
    assert container_memory(tmp_path / "missing", tmp_path / "mount") is None


def test_version_1_is_understood_also_where_the_container_has_its_group_as_the_root(tmp_path: Path) -> None:
    group_1(tmp_path / "mount/memory", 200 * MB, 190, cache_mb=10)
    assert read(tmp_path, "9:cpu,cpuacct:/docker/abc\n4:memory:/docker/abc\n0::/\n") == ContainerMemory(180, 200)


@pytest.fixture
def sleepers() -> Iterator[list[subprocess.Popen[bytes]]]:
    """Two processes; the second one holds 30 MB more."""
    code = "held = b'x' * ({} * 1024 * 1024); print(flush=True); import sys; sys.stdin.read()"
    started = [
        subprocess.Popen([sys.executable, "-c", code.format(mb)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for mb in (1, 31)
    ]
    for process in started:
        assert process.stdout is not None
        process.stdout.readline()
    yield started
    for process in started:
        process.kill()
        process.communicate()


def test_the_largest_child_is_named_and_one_that_has_exited_is_left_out(
    sleepers: list[subprocess.Popen[bytes]],
) -> None:
    small, large = sleepers
    found = children_memory([small.pid, large.pid])
    assert found.largest_pid == large.pid
    assert found.largest_mb is not None
    assert found.largest_mb > 31
    assert found.total_mb > found.largest_mb
    large.kill()
    large.wait()
    assert children_memory([small.pid, large.pid]).largest_pid == small.pid
    assert children_memory([]).largest_pid is None


def test_a_child_with_a_limit_is_measured_by_its_address_space(sleepers: list[subprocess.Popen[bytes]]) -> None:
    small, large = sleepers
    found = children_memory([small.pid, large.pid])
    assert found.limit_mb is None
    if sys.platform != "linux":
        return
    resource.prlimit(small.pid, resource.RLIMIT_AS, (2_000 * MB, 2_000 * MB))
    found = children_memory([small.pid, large.pid])
    assert (found.largest_pid, found.limit_mb) == (small.pid, 2_000)
