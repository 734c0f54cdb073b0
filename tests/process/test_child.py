"""A child process and every way it can end: a task that damages its process affects only that task."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from forked_children import forked_here

from horsies.config.recovery import RecoveryConfig
from horsies.domain.progress_pace import Reading
from horsies.run.contract import ChildExit, ChildFailed, ChildResult, ChildSpec, Job, LeaseTerms, LogRecord
from horsies.run.guard import clock
from horsies.run.pool import job_queue as track
from horsies.run.pool.child import Child
from horsies.run.pool.process import Guard

pytestmark = pytest.mark.asyncio(loop_scope="module")

STREAMS = ("stdout", "stderr")
IDLE_TITLE = "horsies: child 1 of test"
TERMS = LeaseTerms.of(RecoveryConfig())


class Watched:
    """A child process and everything that it has reported."""

    def __init__(self) -> None:
        self.results: dict[str, ChildResult] = {}
        self.output: list[tuple[str | None, str, str]] = []
        self.records: list[tuple[str | None, LogRecord]] = []
        self.progress: dict[str, list[Reading]] = {}
        self.end: ChildExit | None = None
        self.child: Child
        self._news = asyncio.Event()
        self._count = 0

    async def start(self, locator: str = "child_app:app", **options: Any) -> Watched:
        settings = {"async_concurrency": 8, "max_tasks": None, "log_level": logging.WARNING, "terms": TERMS, **options}
        spec = ChildSpec(locator=locator, index=1, title=IDLE_TITLE, **settings)
        self.guard = Guard(spec.terms, lambda _guard, _returncode: None)
        try:
            with forked_here():
                self.child = await Child.start(spec, self.guard, self)
        except BaseException:
            await self.guard.close()
            raise
        return self

    async def close(self) -> None:
        await self.child.close(0)
        await self.guard.close()

    def submit(self, task_name: str, *args: Any, timeout_ms: int | None = None) -> str:
        self._count += 1
        key = f"job-{self._count}"
        self.child.submit(Job(key, task_name, json.dumps(args), None, timeout_ms), clock())
        return key

    async def run(self, task_name: str, *args: Any, timeout_ms: int | None = None) -> ChildResult:
        return await self.result_of(self.submit(task_name, *args, timeout_ms=timeout_ms))

    async def result_of(self, key: str, within_s: float = 10) -> ChildResult:
        await self.until(lambda: key in self.results, within_s)
        return self.results[key]

    async def until_begun(self, key: str) -> None:
        await self.until(lambda: (key, "stdout", "begun") in self.output)

    async def until_gone(self, within_s: float = 10) -> ChildExit:
        await self.until(lambda: self.end is not None, within_s)
        assert self.end is not None
        return self.end

    async def until(self, condition: Callable[[], bool], within_s: float = 10) -> None:
        async with asyncio.timeout(within_s):
            while not condition():
                self._news.clear()
                await self._news.wait()

    def lines(self, key: str | None, *streams: str) -> list[str]:
        return [line for whose, stream, line in self.output if whose == key and stream in (streams or STREAMS)]

    def ended(self, child: Child, key: str, result: ChildResult) -> None:
        assert child is self.child
        assert self.end is None
        self.results[key] = result
        self._news.set()

    def printed(self, _child: Child, key: str | None, stream: str, line: str) -> None:
        self.output.append((key, stream, line))
        self._news.set()

    def logged(self, _child: Child, key: str | None, record: LogRecord) -> None:
        self.records.append((key, record))
        self._news.set()

    def reported(self, key: str, reading: Reading) -> None:
        assert key not in self.results, "a report comes before the result"
        self.progress.setdefault(key, []).append(reading)

    def exited(self, _child: Child, end: ChildExit) -> None:
        assert self.end is None
        self.end = end
        self._news.set()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def living() -> AsyncIterator[list[Watched]]:
    """The child that the last test left alive and idle, if any."""
    kept: list[Watched] = []
    yield kept
    for watched in kept:
        await watched.close()


@pytest_asyncio.fixture(loop_scope="module")
async def watched(living: list[Watched]) -> AsyncIterator[Watched]:
    """A child that is ready: usually one in which other tests have misbehaved already."""
    given = living.pop() if living else await Watched().start()
    given.results.clear()
    given.output.clear()
    yield given
    if given.end is None and given.child.in_flight == 0:
        living.append(given)
    else:
        await given.close()
        assert given.end is not None


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A task that ignores a stop is killed after 0.2 s, not 5."""
    monkeypatch.setattr(track, "STOP_GRACE_S", 0.2)


def ok_of(result: ChildResult) -> Any:
    assert result.status == "ok", result
    assert result.error_code is None
    return json.loads(result.result_json)["ok"]


def error_of(result: ChildResult) -> dict[str, Any]:
    assert result.status == "err", result
    error = json.loads(result.result_json)["err"]
    code = error.get("error_code")
    assert result.error_code == (code["__builtin_task_code__"] if isinstance(code, dict) else code)
    assert result.error_message == error["message"].replace("\0", "")
    result.error_message.encode()
    result.result_json.encode()
    return error


@contextmanager
def fifo(directory: Path) -> Iterator[Path]:
    path = directory / "fifo"
    os.mkfifo(path)
    yield path


async def write_to(path: Path, text: str) -> None:
    """Opening a FIFO waits until it has a reader."""
    await asyncio.to_thread(path.write_text, text)


async def test_a_task_runs_with_its_arguments_and_its_result_is_ready_to_be_stored(watched: Watched) -> None:
    result = await watched.run("add", 2, 3)
    assert result.status == "ok"
    assert result.result_json == '{"__task_result__":true,"ok":5,"err":null}'
    assert result.duration_s >= 0
    watched.child.submit(Job("named", "echo", '["a"]', '{"b":1}'), clock())
    assert ok_of(await watched.result_of("named")) == [["a"], {"b": 1}]
    assert watched.child.facts.keys() >= {"add", "nothing", "nothing_async"}


async def test_whatever_a_task_raises_ends_that_task_and_the_child_goes_on(watched: Watched) -> None:
    for task_name, exception in (
        ("sys_exit", "SystemExit"),
        ("sys_exit_async", "SystemExit"),
        ("interrupt", "KeyboardInterrupt"),
        ("recurse", "RecursionError"),
        ("dirty_exception", "ValueError"),
        ("unpicklable_exception", "UnpicklableError"),
        ("cancel_itself", "CancelledError"),
    ):
        error = error_of(await watched.run(task_name))
        assert error["error_code"] == {"__builtin_task_code__": "UNHANDLED_EXCEPTION"}
        assert error["exception"]["type"] == exception
        assert ok_of(await watched.run("add", 1, 1)) == 2


async def test_a_result_above_the_cap_becomes_an_error_that_names_both_sizes(watched: Watched) -> None:
    cap = 16 * 1024 * 1024
    shell = len('{"__task_result__":true,"ok":"","err":null}')
    assert len((await watched.run("large_result", cap - shell)).result_json) == cap
    error = error_of(await watched.run("large_result", cap - shell + 1))
    assert error["error_code"] == {"__builtin_task_code__": "WORKER_SERIALIZATION_ERROR"}
    assert f"{cap + 1:,}" in error["message"]
    assert f"{cap:,}" in error["message"]


async def test_arguments_of_10_mb_arrive(watched: Watched) -> None:
    result = await watched.run("echo", "y" * 10_000_000)
    assert len(ok_of(result)[0][0]) == 10_000_000


async def test_arguments_or_a_name_that_cannot_be_used_are_an_error_of_that_task(watched: Watched) -> None:
    for number, (args, kwargs, says) in enumerate(
        (
            ("[1,", None, "not valid JSON"),
            ('{"left": 1}', None, "expected a JSON array"),
            (None, "[]", "expected a JSON object"),
            ("[1]", None, "missing a required argument"),
            ("[1,2,3]", None, "too many positional arguments"),
            ("[1]", '{"right": "not an int"}', "right is str, not int"),
        )
    ):
        watched.child.submit(Job(f"bad-{number}", "add", args, kwargs), clock())
        error = error_of(await watched.result_of(f"bad-{number}"))
        assert error["error_code"] == {"__builtin_task_code__": "WORKER_SERIALIZATION_ERROR"}
        assert says in error["message"]
        assert ok_of(await watched.run("add", 1, 1)) == 2
    error = error_of(await watched.run("no_such_task"))
    assert error["error_code"] == {"__builtin_task_code__": "WORKER_RESOLUTION_ERROR"}
    assert "no_such_task" in error["message"]


@pytest.mark.parametrize(
    ("task_name", "args", "reason"),
    [
        ("die_by", [signal.SIGKILL], "killed by SIGKILL"),
        ("die_by", [signal.SIGABRT], "killed by SIGABRT"),
        ("segfault", [], "killed by SIGSEGV"),
        ("os_exit", [3], "exit code 3"),
        ("os_exit", [0], "exit code 0"),
    ],
)
async def test_a_dead_child_is_noticed_at_once_and_only_the_running_task_was_lost(
    watched: Watched, task_name: str, args: list[int], reason: str
) -> None:
    before = watched.submit("add", 1, 1)
    victim = watched.submit(task_name, *args)
    after = [watched.submit("nothing"), watched.submit("nothing")]
    end = await watched.until_gone()
    assert end.reason == reason
    assert end.started == (victim,)
    assert end.waiting == tuple(after)
    assert ok_of(watched.results.pop(before)) == 2
    assert not watched.results


@pytest.mark.parametrize("task_name", ["write_to_our_sockets", "close_our_sockets"])
async def test_a_task_that_breaks_the_connection_loses_its_own_child_only(watched: Watched, task_name: str) -> None:
    key = watched.submit(task_name)
    end = await watched.until_gone()
    assert end.started == (key,)
    assert end.waiting == ()


async def test_a_killed_child_loses_all_async_tasks_that_had_started(watched: Watched) -> None:
    keys = [watched.submit("sleep_async") for _ in range(3)]
    for key in keys:
        await watched.until_begun(key)
    os.kill(watched.child.pid, signal.SIGKILL)
    end = await watched.until_gone()
    assert sorted(end.started) == keys
    assert end.waiting == ()


async def test_a_fork_that_holds_everything_open_does_not_hide_the_death_of_the_child(watched: Watched) -> None:
    key = watched.submit("leave_a_fork_and_die")
    end = await watched.until_gone()
    assert end.reason == "killed by SIGKILL"
    assert end.started == (key,)
    forked = int(watched.lines(key)[0].split()[1])
    os.kill(forked, signal.SIGKILL)


async def test_a_program_left_behind_does_not_keep_a_child_from_ending(watched: Watched) -> None:
    program = ok_of(await watched.run("leave_a_program"))
    await watched.child.close(1)
    assert watched.end == ChildExit(0, (), ())
    os.kill(program, signal.SIGKILL)


async def test_a_task_that_forks_and_returns_twice_has_one_result(watched: Watched) -> None:
    assert ok_of(await watched.run("fork_and_return_twice")) == 0
    assert ok_of(await watched.run("add", 1, 1)) == 2
    assert len(watched.results) == 2


async def test_a_process_that_a_task_forks_can_be_terminated_as_usual(watched: Watched) -> None:
    assert ok_of(await watched.run("terminate_a_fork")) == -signal.SIGTERM


async def test_threads_left_behind_do_not_keep_a_child_from_ending(watched: Watched) -> None:
    ok_of(await watched.run("leave_a_thread"))
    ok_of(await watched.run("leave_a_last_will"))
    await watched.child.close(1)
    assert watched.end == ChildExit(0, (), ())
    assert watched.lines(None) == ["last will"]


async def test_prints_reach_the_parent_line_by_line_with_their_task(watched: Watched) -> None:
    first = watched.submit("print_lines", "one", "two\nthree", "\udcff surrogate")
    second = watched.submit("print_lines", "four")
    await watched.result_of(second)
    assert watched.lines(first, "stdout") == ["one", "two", "three", "\\udcff surrogate", "without end"]
    assert watched.lines(second, "stdout") == ["four", "without end"]
    assert watched.lines(first, "stderr") == watched.lines(second, "stderr") == ["to stderr"]


async def test_output_of_c_code_and_programs_reaches_the_parent_in_order(watched: Watched) -> None:
    key = watched.submit("print_from_c")
    await watched.result_of(key)
    assert watched.lines(key) == ["first", "from C", "from a program", "last"]


async def test_prints_of_async_tasks_keep_their_task_while_they_alternate(watched: Watched) -> None:
    keys = [watched.submit("print_async", f"first {n}", f"second {n}") for n in range(3)]
    for n, key in enumerate(keys):
        await watched.result_of(key)
        assert watched.lines(key) == [f"first {n}", f"second {n}", f"second {n} in a thread"]


@pytest.mark.parametrize("megabytes", [10, pytest.param(50, marks=pytest.mark.chaos)])
async def test_a_flood_of_output_neither_blocks_the_child_nor_fills_the_parent(
    watched: Watched, megabytes: int
) -> None:
    key = watched.submit("flood", megabytes)
    await watched.result_of(key)
    kept = watched.lines(key)
    assert 1_000 < len(kept) < 30_000
    await watched.child.close(5)
    left_out = [int(line.split()[1].replace(",", "")) for line in kept if "left out" in line]
    assert sum(left_out) + len(kept) - len(left_out) == megabytes * 10_000


async def test_a_stop_interrupts_a_task_in_python_and_in_a_system_call(watched: Watched) -> None:
    for task_name in ("spin", "sleep"):
        key = watched.submit(task_name)
        await watched.until_begun(key)
        watched.child.stop_task(key)
        error = error_of(await watched.result_of(key))
        assert error["error_code"] == "TASK_INTERRUPTED"
        assert f"in {task_name}" in error["exception"]["traceback"]
    assert ok_of(await watched.run("add", 1, 1)) == 2


async def test_a_stop_cancels_an_async_task_and_lets_it_clean_up(watched: Watched) -> None:
    stopped, other = watched.submit("sleep_async"), watched.submit("sleep_async")
    await watched.until_begun(stopped)
    await watched.until_begun(other)
    watched.child.stop_task(stopped, "BY_OPERATOR", "no longer wanted")
    error = error_of(await watched.result_of(stopped))
    assert (error["error_code"], error["message"]) == ("BY_OPERATOR", "no longer wanted")
    assert watched.lines(stopped) == ["begun", "cleaned up"]
    assert list(watched.child.running) == [other]


async def test_a_job_stopped_before_its_turn_never_runs(watched: Watched) -> None:
    running = watched.submit("sleep")
    refused, kept = watched.submit("print_lines", "ran"), watched.submit("add", 1, 1)
    await watched.until_begun(running)
    assert list(watched.child.running) == [running]
    watched.child.stop_task(refused)
    watched.child.stop_task(running)
    assert error_of(await watched.result_of(running))["error_code"] == "TASK_INTERRUPTED"
    assert error_of(await watched.result_of(refused))["error_code"] == "TASK_INTERRUPTED"
    assert ok_of(await watched.result_of(kept)) == 2
    assert watched.lines(refused) == []
    assert [watched.results[key].began for key in (running, refused, kept)] == [True, False, True]


async def test_an_async_job_stopped_before_its_turn_never_runs() -> None:
    watched = await Watched().start(async_concurrency=1)
    running, refused, kept = watched.submit("sleep_async"), watched.submit("sleep_async"), watched.submit("sleep_async")
    await watched.until_begun(running)
    watched.child.stop_task(refused)
    assert error_of(await watched.result_of(refused))["error_code"] == "TASK_INTERRUPTED"
    watched.child.stop_task(running)
    await watched.until_begun(kept)
    assert [watched.results[key].began for key in (running, refused)] == [True, False]
    assert watched.lines(refused) == []
    assert list(watched.child.running) == [kept]
    await watched.close()


async def test_an_unknown_key_or_one_that_has_ended_is_not_stopped(watched: Watched) -> None:
    key = watched.submit("add", 1, 1)
    await watched.result_of(key)
    watched.child.stop_task(key)
    watched.child.stop_task("never seen")
    assert ok_of(await watched.run("add", 2, 2)) == 4


async def test_what_a_task_returns_on_being_stopped_counts(watched: Watched) -> None:
    key = watched.submit("return_although_stopped")
    await watched.until_begun(key)
    watched.child.stop_task(key)
    assert ok_of(await watched.result_of(key)) == "TaskStopped"


async def test_a_stop_whose_signal_is_missed_is_told_again(watched: Watched) -> None:
    """Otherwise the task sleeps on, and its process is killed 5 s later."""
    key = watched.submit("miss_the_signal")
    await watched.until_begun(key)
    watched.child.stop_task(key)
    error = error_of(await watched.result_of(key))
    assert (error["error_code"], "had to be killed" in error["message"]) == ("TASK_INTERRUPTED", False)
    assert ok_of(await watched.run("add", 2, 2)) == 4


async def test_an_exception_of_the_clean_up_does_not_hide_that_the_task_was_stopped(watched: Watched) -> None:
    error = error_of(await watched.run("clean_up_badly", timeout_ms=50))
    assert error["error_code"] == "TASK_TIMEOUT"
    assert error["exception"]["type"] == "OSError"


async def test_a_task_past_its_timeout_is_stopped(watched: Watched) -> None:
    for task_name in ("spin", "sleep", "sleep_async"):
        error = error_of(await watched.run(task_name, timeout_ms=100))
        assert error["error_code"] == "TASK_TIMEOUT"
        assert "100 ms" in error["message"]
        assert ok_of(await watched.run("add", 1, 1)) == 2


@pytest.mark.parametrize("task_name", ["hold_the_gil", "block_the_loop", "refuse_to_end_async"])
async def test_a_task_that_takes_no_notice_of_its_timeout_is_killed(
    watched: Watched, impatient: None, task_name: str
) -> None:
    key = watched.submit(task_name, timeout_ms=100)
    end = await watched.until_gone()
    assert end == ChildExit(-signal.SIGKILL, (), (), f"task {key} ({task_name}) did not stop (TASK_TIMEOUT)")
    error = error_of(watched.results[key])
    assert error["error_code"] == "TASK_TIMEOUT"
    assert "killed" in error["message"]


async def test_the_timeout_counts_from_the_start_of_the_task_not_from_its_submission(
    watched: Watched, tmp_path: Path
) -> None:
    with fifo(tmp_path) as path:
        first = watched.submit("sleep", timeout_ms=200)
        second = watched.submit("read_file", str(path), timeout_ms=200)
        assert error_of(await watched.result_of(first))["error_code"] == "TASK_TIMEOUT"
        await watched.until_begun(second)
        await write_to(path, "in time")
        assert ok_of(await watched.result_of(second)) == "in time"


async def test_a_sigterm_from_elsewhere_disturbs_no_task(watched: Watched, tmp_path: Path) -> None:
    with fifo(tmp_path) as path:
        key = watched.submit("read_file", str(path))
        await watched.until_begun(key)
        os.kill(watched.child.pid, signal.SIGTERM)
        await write_to(path, "undisturbed")
        assert ok_of(await watched.result_of(key)) == "undisturbed"


async def test_async_tasks_run_together_up_to_the_limit_and_in_order() -> None:
    watched = await Watched().start(async_concurrency=2)
    keys = [watched.submit("wait_for", name) for name in ("a", "b", "c")]
    await watched.until_begun(keys[1])
    assert list(watched.child.running) == keys[:2]
    assert watched.child.in_flight == 3
    watched.child.stop_task(keys[0])
    await watched.until_begun(keys[2])
    assert list(watched.child.running) == keys[1:]
    await watched.close()
    assert watched.end is not None
    assert sorted(watched.end.started) == keys[1:]


async def test_async_tasks_go_on_while_a_plain_task_blocks(watched: Watched) -> None:
    blocking = watched.submit("sleep")
    await watched.until_begun(blocking)
    waiting = watched.submit("wait_for", "go")
    await watched.run("release", "go")
    assert ok_of(await watched.result_of(waiting)) == "go"
    assert list(watched.child.running) == [blocking]


async def test_async_tasks_go_on_while_the_worker_reads_no_results(watched: Watched, tmp_path: Path) -> None:
    """It reads none while too much waits for the database; a result that does not fit the socket stopped the loop."""
    with fifo(tmp_path) as path:
        reading = watched.submit("read_async", str(path))
        await watched.until_begun(reading)
        watched.child.hold_results(True)
        large = [watched.submit("large_result_async", 2_000_000) for _ in range(2)]
        await watched.until_begun(large[0])
        await write_to(path, "text")
        await watched.until(lambda: (reading, "stdout", "read") in watched.output)
    watched.child.hold_results(False)
    assert [len(ok_of(await watched.result_of(key))) for key in large] == [2_000_000] * 2
    assert ok_of(await watched.result_of(reading)) == "text"
    assert ok_of(await watched.run("nothing_async")) is None


async def test_a_subtask_that_exits_does_not_end_the_event_loop(watched: Watched) -> None:
    waiting = watched.submit("wait_for", "go")
    assert ok_of(await watched.run("exit_in_a_subtask")) == "went on"
    await watched.run("release", "go")
    assert ok_of(await watched.result_of(waiting)) == "go"


async def test_a_child_ends_after_its_share_of_tasks() -> None:
    watched = await Watched().start(max_tasks=2)
    assert watched.child.remaining == 2
    keys = [watched.submit("add", 1, 1), watched.submit("nothing_async")]
    assert watched.child.remaining == 0
    surplus = watched.submit("nothing")
    end = await watched.until_gone()
    assert end == ChildExit(0, (), (surplus,))
    assert sorted(watched.results) == keys
    await watched.close()


async def test_closing_waits_for_the_jobs_and_then_kills(watched: Watched, tmp_path: Path) -> None:
    with fifo(tmp_path) as path:
        running, next_one = watched.submit("read_file", str(path)), watched.submit("add", 1, 1)
        await watched.until_begun(running)
        closing = asyncio.create_task(watched.child.close(10))
        await write_to(path, "finished")
        await closing
    assert ok_of(watched.results[running]) == "finished"
    assert ok_of(watched.results[next_one]) == 2
    assert watched.end == ChildExit(0, (), ())


async def test_a_job_that_outlasts_the_closing_is_killed(watched: Watched) -> None:
    key = watched.submit("spin")
    await watched.until_begun(key)
    await watched.child.close(0.05)
    assert watched.end == ChildExit(-signal.SIGKILL, (key,), ())


async def test_ps_shows_what_runs(watched: Watched) -> None:
    key = watched.submit("own_title")
    assert ok_of(await watched.result_of(key)) == f"{IDLE_TITLE} · own_title …{key[-8:]}"


async def test_an_app_that_cannot_be_imported_says_why(tmp_path: Path) -> None:
    broken = tmp_path / "broken_app.py"
    broken.write_text("print('half way')\nimport no_such_library\n")
    with pytest.raises(ChildFailed) as caught:
        await Watched().start(f"{broken}:app")
    assert "HRS-210" in str(caught.value)
    assert "no_such_library" in str(caught.value)
    assert "half way" in str(caught.value)


async def test_a_child_that_dies_while_it_imports_says_how(tmp_path: Path) -> None:
    broken = tmp_path / "dying_app.py"
    broken.write_text("import os\nprint('last words', flush=True)\nos._exit(7)\n")
    with pytest.raises(ChildFailed, match="exit code 7") as caught:
        await Watched().start(f"{broken}:app")
    assert "last words" in str(caught.value)


async def test_a_child_that_hangs_while_it_imports_is_given_up(tmp_path: Path) -> None:
    hanging = tmp_path / "hanging_app.py"
    hanging.write_text(
        "import os, pathlib, signal\n"
        f"pathlib.Path({str(tmp_path / 'pid')!r}).write_text(str(os.getpid()))\n"
        "while True: signal.pause()\n"
    )
    # A busy machine takes seconds to import what precedes the application.
    with pytest.raises(ChildFailed, match=r"not ready after 4 s"):
        await Watched().start(f"{hanging}:app", start_timeout_s=4.0)
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


async def test_a_start_that_is_cancelled_leaves_no_process(tmp_path: Path) -> None:
    with fifo(tmp_path) as path:
        hanging = tmp_path / "waiting_app.py"
        hanging.write_text(f"import os\nopen({str(path)!r}, 'w').write(str(os.getpid()))\nwhile True: pass\n")
        starting = asyncio.create_task(Watched().start(f"{hanging}:app"))
        pid = int(await asyncio.to_thread(path.read_text))
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
