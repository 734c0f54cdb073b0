"""Tasks that end in every possible way; the child processes of test_child.py import this module."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import ctypes
import dataclasses
import gc
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
import weakref
from pathlib import Path
from typing import Any

from horsies import AppConfig, Horsies, PostgresConfig, TaskError, TaskResult

app = Horsies(AppConfig(broker=PostgresConfig(database_url="postgresql://nobody@localhost/nothing")))

Out = TaskResult[Any, TaskError]
_ABOVE_ALL = 1_000  # the sockets have the numbers that they have in the parent, which may hold many files


class UnpicklableError(Exception):
    """Contains a lock and needs two arguments, so it can be neither copied nor unpickled."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(f"{first} and {second}")
        self.lock = threading.Lock()


def begun() -> None:
    """Notify the test that user code runs."""
    print("begun", flush=True)


@app.task("nothing")
def nothing() -> Out:
    return TaskResult(ok=None)


@app.task("clock")
def clock() -> Out:
    return TaskResult(ok=time.monotonic_ns())


@app.task("echo")
def echo(*args: Any, **kwargs: Any) -> Out:
    return TaskResult(ok=[list(args), kwargs])


@app.task("add")
def add(left: int, right: int) -> Out:
    return TaskResult(ok=left + right)


@app.task("die_by")
def die_by(number: int) -> Out:
    begun()
    os.kill(os.getpid(), number)
    time.sleep(60)
    return TaskResult(ok=None)


@app.task("segfault")
def segfault() -> Out:
    ctypes.string_at(0)
    return TaskResult(ok=None)


@app.task("os_exit")
def os_exit(code: int) -> Out:
    os._exit(code)


@app.task("sys_exit")
def sys_exit() -> Out:
    sys.exit("enough")


@app.task("interrupt")
def interrupt() -> Out:
    raise KeyboardInterrupt


@app.task("recurse")
def recurse() -> Out:
    def deeper(level: int) -> int:
        return deeper(level + 1) + 1

    return TaskResult(ok=deeper(0))


@app.task("dirty_exception")
def dirty_exception() -> Out:
    raise ValueError("nul \0 and surrogate \ud800 in the text")


@app.task("unpicklable_exception")
def unpicklable_exception() -> Out:
    raise UnpicklableError("one", "two")


@app.task("large_result")
def large_result(size: int) -> Out:
    return TaskResult(ok="x" * size)


@app.task("print_lines")
def print_lines(*lines: str) -> Out:
    for line in lines:
        print(line)
    print("to stderr", file=sys.stderr)
    print("without end", end="")
    return TaskResult(ok=None)


@app.task("flood")
def flood(megabytes: int) -> Out:
    line = "x" * 99
    for _ in range(megabytes * 10_000):
        print(line)
    return TaskResult(ok=None)


@app.task("print_from_c")
def print_from_c() -> Out:
    library = ctypes.CDLL(None)
    print("first")
    library.puts(b"from C")
    subprocess.run(["echo", "from a program"], check=True)
    print("last")
    return TaskResult(ok=None)


@app.task("fork_and_return_twice")
def fork_and_return_twice() -> Out:
    forked = os.fork()
    status = os.waitpid(forked, 0)[1] if forked else None
    return TaskResult(ok=status)


@app.task("leave_a_fork_and_die")
def leave_a_fork_and_die() -> Out:
    forked = os.fork()
    if forked == 0:
        signal.pause()
        os._exit(0)
    print(f"forked {forked}", flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
    return TaskResult(ok=None)


@app.task("leave_a_program")
def leave_a_program() -> Out:
    return TaskResult(ok=subprocess.Popen(["sleep", "60"]).pid)


@app.task("terminate_a_fork")
def terminate_a_fork() -> Out:
    process = multiprocessing.get_context("fork").Process(target=signal.pause)
    process.start()
    process.terminate()
    process.join(5)
    return TaskResult(ok=process.exitcode)


@app.task("write_to_our_sockets")
def write_to_our_sockets() -> Out:
    for descriptor in range(3, _ABOVE_ALL):
        with contextlib.suppress(OSError):
            os.write(descriptor, b"not a frame of ours")
    return TaskResult(ok=None)


@app.task("close_our_sockets")
def close_our_sockets() -> Out:
    os.closerange(3, _ABOVE_ALL)
    return TaskResult(ok=None)


@app.task("leave_a_thread")
def leave_a_thread() -> Out:
    threading.Thread(target=threading.Event().wait, daemon=False).start()
    return TaskResult(ok=None)


@app.task("leave_a_last_will")
def leave_a_last_will() -> Out:
    atexit.register(print, "last will")
    return TaskResult(ok=None)


@app.task("read_file")
def read_file(path: str) -> Out:
    """Starts, then waits until the test has opened and written the FIFO at `path`."""
    begun()
    return TaskResult(ok=Path(path).read_text())


@app.task("sleep")
def sleep() -> Out:
    begun()
    time.sleep(60)
    return TaskResult(ok=None)


@app.task("spin")
def spin() -> Out:
    begun()
    while True:
        pass


@app.task("hold_the_gil")
def hold_the_gil() -> Out:
    begun()
    return TaskResult(ok=sum(range(10**12)))


@app.task("clean_up_badly")
def clean_up_badly() -> Out:
    begun()
    try:
        time.sleep(60)
    finally:
        raise OSError("the clean-up failed")


@app.task("return_although_stopped")
def return_although_stopped() -> Out:
    try:
        begun()  # the stop may come at once, also before the next line
        time.sleep(60)
    except BaseException as stop:  # noqa: BLE001 - user code knows no other name for it
        return TaskResult(ok=type(stop).__name__)
    return TaskResult(ok=None)


@app.task("miss_the_signal")
def miss_the_signal() -> Out:
    """Like code whose system call begins at the moment when the signal arrives."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    begun()
    signal.sigwait({signal.SIGTERM})
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    time.sleep(60)
    return TaskResult(ok=None)


@app.task("own_title")
def own_title() -> Out:
    """What `ps` shows for this process once it names the task."""
    until = time.monotonic() + 5
    title = ""
    while "own_title" not in title and time.monotonic() < until:
        time.sleep(0.005)
        title = Path("/proc/self/cmdline").read_text().rstrip("\0")
    return TaskResult(ok=title)


@app.task("nothing_async")
async def nothing_async() -> Out:
    return TaskResult(ok=None)


@app.task("large_result_async")
async def large_result_async(size: int) -> Out:
    begun()
    return TaskResult(ok="x" * size)


@app.task("read_async")
async def read_async(path: str) -> Out:
    begun()
    text = await asyncio.to_thread(Path(path).read_text)
    print("read", flush=True)
    return TaskResult(ok=text)


@app.task("print_async")
async def print_async(first: str, second: str) -> Out:
    print(first)
    await asyncio.sleep(0)
    print(second)
    await asyncio.to_thread(print, f"{second} in a thread")
    return TaskResult(ok=None)


@app.task("sleep_async")
async def sleep_async() -> Out:
    begun()
    try:
        await asyncio.sleep(60)
    finally:
        print("cleaned up")
    return TaskResult(ok=None)


@app.task("refuse_to_end_async")
async def refuse_to_end_async() -> Out:
    begun()
    while True:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            continue


@app.task("block_the_loop")
async def block_the_loop() -> Out:
    begun()
    time.sleep(60)  # noqa: ASYNC251 - the mistake that is tested
    return TaskResult(ok=None)


@app.task("exit_in_a_subtask")
async def exit_in_a_subtask() -> Out:
    async def leave() -> None:
        sys.exit(3)

    leaving = asyncio.create_task(leave())
    await asyncio.wait([leaving])
    return TaskResult(ok="went on")


@app.task("cancel_itself")
async def cancel_itself() -> Out:
    raise asyncio.CancelledError


@app.task("sys_exit_async")
async def sys_exit_async() -> Out:
    sys.exit("enough")


events: dict[str, asyncio.Event] = {}


@app.task("wait_for")
async def wait_for(name: str) -> Out:
    begun()
    await events.setdefault(name, asyncio.Event()).wait()
    return TaskResult(ok=name)


@app.task("release")
async def release(name: str) -> Out:
    events.setdefault(name, asyncio.Event()).set()
    return TaskResult(ok=None)


class Cargo:
    """A local variable of a task that fails; tests ask whether it is still alive."""

    def __init__(self) -> None:
        cargo.append(weakref.ref(self))


cargo: list[weakref.ref[Cargo]] = []


@dataclasses.dataclass(frozen=True)
class FrozenError(Exception):
    text: str


@app.task("cargo_alive")
def cargo_alive() -> Out:
    """Whether each Cargo so far is alive; from the first call on only reference counts free objects."""
    gc.disable()
    return TaskResult(ok=[reference() is not None for reference in cargo])


def fail(how: str, _kept: Cargo) -> Out:
    own = Cargo()  # noqa: F841 - kept as long as this frame
    if how == "raise":
        raise ValueError("no")
    if how == "frozen":
        raise FrozenError("no")
    if how == "exit":
        sys.exit(1)
    if how == "group":
        raise ExceptionGroup("two", [tried_before(), KeyError("y")])
    if how == "name it":
        last = tried_before()
        raise RuntimeError("after all tries") from last
    if how == "in the context":
        last = tried_before()
        try:
            raise last
        finally:
            raise RuntimeError("the clean-up failed")
    if how == "unwritable":
        return TaskResult(ok=[_kept])
    result: Out = TaskResult(err=TaskError(error_code="NO", message="no", exception=tried_before()))
    return result


def tried_before() -> OSError:
    try:
        own = Cargo()  # noqa: F841
        raise OSError("the first try")
    except OSError as error:
        last = error
    return last


@app.task("fail_holding")
def fail_holding(how: str) -> Out:
    return fail(how, Cargo())


@app.task("fail_holding_async")
async def fail_holding_async(how: str) -> Out:
    await asyncio.sleep(0)
    return fail(how, Cargo())


@app.task("fail_in_a_group_async")
async def fail_in_a_group_async() -> Out:
    async def part() -> None:
        own = Cargo()  # noqa: F841
        await asyncio.sleep(0)
        raise OSError("a part")

    async with asyncio.TaskGroup() as group:
        parts = [group.create_task(part()) for _ in range(2)]
    return TaskResult(ok=len(parts))


@app.task("sleep_holding")
def sleep_holding() -> Out:
    own = Cargo()  # noqa: F841
    begun()
    time.sleep(60)
    return TaskResult(ok=None)


@app.task("return_holding")
def return_holding() -> Out:
    own = Cargo()  # noqa: F841
    begun()
    with contextlib.suppress(BaseException):
        time.sleep(60)
    return TaskResult(ok=None)


@app.task("sleep_holding_async")
async def sleep_holding_async() -> Out:
    own = Cargo()  # noqa: F841
    begun()
    await asyncio.sleep(60)
    return TaskResult(ok=None)


@app.task("fail_with_megabytes")
def fail_with_megabytes(megabytes: int) -> Out:
    held = b"x" * (megabytes << 20)
    raise ValueError(f"while {len(held)} bytes are held")


@app.task("size_async")
async def size_async(text: str) -> Out:
    return TaskResult(ok=len(text))


@app.task("size")
def size(text: str) -> Out:
    return TaskResult(ok=len(text))
