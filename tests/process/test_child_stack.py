"""The stack of a running task, whatever it hangs in."""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import hang_app
import pytest
import pytest_asyncio
from test_child import Watched

from horsies.run.guard import clock
from horsies.run.pool import stacks

pytestmark = pytest.mark.asyncio(loop_scope="module")

APP = Path(hang_app.__file__)


@pytest_asyncio.fixture(loop_scope="module")
async def watched() -> AsyncIterator[Watched]:
    watched = await Watched().start("hang_app:app")
    yield watched
    await watched.close()


HANGS_IN = {
    "wait_for_a_lock": "with lock:",
    "sleep_long": "time.sleep(3_600)",
    "count_for_ever": "while True: number += 1",  # one of both lines
    "backtrack": 're.match(r"(a+)+b", "a" * 60)',
    "start_threads": "thread.join()",
    "await_for_ever": "await asyncio.get_running_loop().create_future()",
    "await_a_group": "await asyncio.get_running_loop().create_future()",
    "await_the_first": "await asyncio.get_running_loop().create_future()",
    "await_in_a_thread": "await asyncio.to_thread(upload)",
    "block_the_loop": "time.sleep(3_600)",
}
IN_A_THREAD = {"start_threads", "await_in_a_thread"}


async def hanging(watched: Watched, task: str, *args: object) -> str:
    """The key of a task that has come to the line in which it hangs, and so has its thread."""
    key = watched.submit(task, *args)
    await watched.until_begun(key)
    async with asyncio.timeout(10):
        while True:
            stack = await stack_of(watched, key)
            sources = [frame["source"] for frame in stack["frames"] if frame["user"]]
            below = [frame["source"] for _, frames in stack["threads"] for frame in frames]
            if (
                sources
                and sources[0]
                and sources[0] in HANGS_IN[task]
                and (task not in IN_A_THREAD or "time.sleep(3_600)" in below)
            ):
                return key


async def stack_of(watched: Watched, key: str, *, with_locals: bool = False) -> dict[str, Any]:
    found = await watched.child.stack(key, with_locals=with_locals)
    assert found is not None
    return found


def own(frames: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Function and source line of the application's frames, innermost first."""
    assert all(frame["file"] == str(APP) for frame in frames if frame["user"])
    return [(frame["function"], frame["source"]) for frame in frames if frame["user"]]


@pytest.mark.parametrize(
    ("task", "line"),
    [("sleep_long", "time.sleep(3_600)"), ("count_for_ever", "number += 1")],  # or the line before it
)
async def test_the_stack_of_a_plain_task_says_in_which_line_it_is_and_one_that_has_ended_or_waits_has_none(
    watched: Watched, task: str, line: str
) -> None:
    key = watched.submit("nothing")
    await watched.result_of(key)
    assert await watched.child.stack(key, with_locals=False) is None
    stack = await stack_of(watched, await hanging(watched, task))
    assert stack["how"] == "python"
    ((function, source),) = own(stack["frames"])
    assert (function, source.replace("while True:", "number += 1")) == (task, line)
    assert all(frame["user"] for frame in stack["frames"]), "none of ours, and none beneath"
    assert stack["threads"] == []
    waiting = watched.submit("nothing")
    assert await watched.child.stack(waiting, with_locals=False) is None


async def test_locals_are_read_only_if_asked_for_and_run_no_code_of_theirs(watched: Watched) -> None:
    key = await hanging(watched, "wait_for_a_lock", "s3cret")
    stack = await stack_of(watched, key)
    assert own(stack["frames"])[0] == ("settle", "with lock:")
    assert "s3cret" not in str(stack)
    stack = await stack_of(watched, key, with_locals=True)
    assert stack["frames"][0]["locals"] == {
        "order": "<hang_app.Order>",
        "lines": [1, "two", {"card": "s3cret"}],
    }


async def test_c_code_that_holds_the_gil_is_seen_by_the_interpreters_dump(watched: Watched) -> None:
    key = await hanging(watched, "backtrack")
    async with asyncio.timeout(10):
        while (await stack_of(watched, key))["how"] == "python":
            pass  # it is in that line, and the expression begins only now
    for _ in range(2):
        stack = await stack_of(watched, key)
        assert stack["how"] == "interpreter"
        assert own(stack["frames"]) == [("backtrack", 're.match(r"(a+)+b", "a" * 60)')]
        assert stack["frames"][0]["file"].endswith("re/__init__.py"), "the library's frame is the innermost"
    assert watched.end is None, "the signal ends no child"


async def test_threads_that_the_task_started_are_shown(watched: Watched) -> None:
    key = await hanging(watched, "start_threads")
    stack = await stack_of(watched, key)
    assert own(stack["frames"]) == [("start_threads", "thread.join()")]
    ((name, frames),) = stack["threads"]
    assert (name, own(frames)) == ("upload", [("upload", "time.sleep(3_600)")])


async def test_an_async_task_shows_its_own_chain_of_awaits_into_the_tasks_that_it_waits_for(watched: Watched) -> None:
    waits, in_thread = await hanging(watched, "await_for_ever"), await hanging(watched, "await_in_a_thread")
    stack = await stack_of(watched, waits)
    assert own(stack["frames"]) == [
        ("answer_of_the_bank", "await asyncio.get_running_loop().create_future()"),
        ("charge", "await asyncio.wait_for(asyncio.gather(quick(), answer_of_the_bank()), 3_600)"),
        ("await_for_ever", "await charge()"),
    ]
    stack = await stack_of(watched, in_thread)
    assert own(stack["frames"]) == [("await_in_a_thread", "await asyncio.to_thread(upload)")]
    ((_, frames),) = stack["threads"]
    assert own(frames) == [("upload", "time.sleep(3_600)")]
    for task, source in (
        ("await_a_group", "async with asyncio.TaskGroup() as group:"),
        ("await_the_first", "await asyncio.wait([asyncio.create_task(answer_of_the_bank())])"),
    ):
        stack = await stack_of(watched, await hanging(watched, task))
        assert own(stack["frames"]) == [
            ("answer_of_the_bank", "await asyncio.get_running_loop().create_future()"),
            (task, source),
        ]


async def test_an_async_task_that_blocks_the_loop_shows_what_it_does(watched: Watched) -> None:
    key = await hanging(watched, "block_the_loop")
    stack = await stack_of(watched, key)
    assert own(stack["frames"]) == [("upload", "time.sleep(3_600)"), ("block_the_loop", "upload()")]


async def dumped(watched: Watched, key: str) -> dict[str, Any]:
    """The first stack that is not Python's: the task may have been met just before its C code."""
    async with asyncio.timeout(10):
        while True:
            stack = await stack_of(watched, key)
            if stack["how"] == "interpreter":
                return stack


async def test_an_answer_that_comes_too_late_is_dropped(watched: Watched) -> None:
    key = watched.submit("hold_the_gil_once")
    await watched.until_begun(key)
    stack = await dumped(watched, key)  # whose signal ends the C code
    assert own(stack["frames"]) == [("hold_the_gil_once", "ctypes.PyDLL(None).sleep(3_600)")]
    async with asyncio.timeout(30):
        while own((await stack_of(watched, key))["frames"])[0][1] != "time.sleep(3_600)":
            pass  # the signal ends the C code, and Python goes on to the next line
    assert (await stack_of(watched, key))["how"] == "python"


async def test_a_dump_has_the_thread_of_the_task_and_says_that_it_has_no_other(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stacks, "_ANSWER_S", 0.0)
    key, of_the_loop = watched.submit("hold_the_gil", 4), watched.submit("await_for_ever")
    await watched.until_begun(key)
    for _ in range(5):
        stack = await dumped(watched, key)
        assert own(stack["frames"])[-1][0] == "hold_the_gil"
        assert stack["threads"] == []
        assert stack["note"].endswith("only the thread of the task is shown")
    stack = await dumped(watched, of_the_loop)
    assert own(stack["frames"]) == [], "it waits for events"
    assert stack["note"].endswith("only the thread of the async tasks is shown")
    assert watched.end is None


async def test_an_async_task_whose_c_code_holds_the_gil_is_dumped(watched: Watched) -> None:
    key = watched.submit("hold_the_gil_in_the_loop")
    await watched.until_begun(key)
    stack = await dumped(watched, key)
    assert own(stack["frames"]) == [("hold_the_gil_in_the_loop", "ctypes.PyDLL(None).sleep(3_600)")]


async def test_python_code_that_runs_is_not_interrupted_however_short_the_patience(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The interpreter follows half-made frames: of 100 dumps of this code, 1 to 8 end the process. While it waits for
    the GIL, which takes long on a machine with too much to do, its frames stand still."""
    monkeypatch.setattr(stacks, "_ANSWER_S", 0.0)
    key = watched.submit("call_back_and_forth")
    await watched.until_begun(key)
    hows = Counter[str]()
    for _ in range(50):
        stack = await stack_of(watched, key)
        hows[stack["how"]] += 1
        assert own(stack["frames"])[-1][0] == "call_back_and_forth"
    assert hows["python"] > 40, hows
    assert watched.end is None


@pytest.mark.chaos
@pytest.mark.parametrize(
    ("task", "args"),
    [
        ("backtrack", []),
        ("hold_the_gil", [10]),
        ("hold_the_gil_in_the_loop", []),
        ("call_back_and_forth", [0]),
        ("call_back_and_forth", [10]),
    ],
)
async def test_no_look_ends_a_process_or_misses_the_task(
    watched: Watched, monkeypatch: pytest.MonkeyPatch, task: str, args: list[int]
) -> None:
    """Without the patience that keeps most looks from being dumps: about 70 ms for each of 3,000 dumps."""
    monkeypatch.setattr(stacks, "_ANSWER_S", 0.0)
    key = watched.submit(task, *args)
    await watched.until_begun(key)
    seen = Counter[str]()
    for _ in range(3_000):
        watched.child.confirm(key, clock())  # as a beat does: otherwise its lease ends after five minutes
        stack = await watched.child.stack(key, with_locals=False)
        assert stack is not None, f"{watched.end} after {seen}"
        if "problem" in stack:
            seen["problem"] += 1
            continue
        seen[stack["how"]] += 1
        assert own(stack["frames"])[-1][0] == task, (seen, stack)
    print(f"{task} {args}: {seen}")
    assert seen["problem"] < 300, "no answer within 1.2 s"


def stop(pid: int) -> None:
    """Its threads stop one after the other: return when the last one has."""
    os.kill(pid, signal.SIGSTOP)
    os.waitid(os.P_PID, pid, os.WSTOPPED | os.WNOWAIT)


async def test_a_process_that_stands_still_is_not_interrupted_later(watched: Watched) -> None:
    """A signal that waits until it goes on could meet Python code that runs."""
    key = watched.submit("call_back_and_forth")
    await watched.until_begun(key)
    stop(watched.child.pid)
    try:
        stack = await watched.child.stack(key, with_locals=False)
    finally:
        os.kill(watched.child.pid, signal.SIGCONT)
    assert stack is not None
    assert "does not answer" in stack["problem"]
    assert (await stack_of(watched, key))["how"] == "python"


async def test_a_child_that_dies_while_it_is_asked_has_no_stack(watched: Watched) -> None:
    """Python never answers here: the first question is still open, and the second one waits for its dump."""
    key = await hanging(watched, "backtrack")
    questions = [asyncio.create_task(watched.child.stack(key, with_locals=False)) for _ in range(2)]
    await asyncio.sleep(0)
    watched.child.kill()
    await watched.until_gone()
    assert await asyncio.gather(*questions) == [None, None]
    assert await watched.child.stack(key, with_locals=False) is None


async def test_a_dump_is_not_read_from_a_descriptor_that_is_closed(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its number may be that of another file by then, which must not be truncated."""
    monkeypatch.setattr(stacks, "_ANSWER_S", 0.0)
    truncated: list[int] = []
    monkeypatch.setattr(os, "truncate", lambda descriptor, _length: truncated.append(descriptor))
    monkeypatch.setattr(stacks._Activity, "shows_no_python", lambda *_activity: True)
    monkeypatch.setattr(stacks._Activity, "asks_for_the_gil", lambda *_activity: True)
    reader = stacks.StackReader(os.dup(1), lambda *_question: None, lambda *_signal: None)
    reader.threads = (0,)
    question = asyncio.create_task(reader.read(0, 1, lambda: True, with_locals=False))
    reader.close()
    assert await question is None
    assert truncated == []
