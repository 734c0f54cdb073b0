"""Tasks that hang in the ways in which tasks hang; each prints `begun` first."""

from __future__ import annotations

import asyncio
import ctypes
import logging
import os
import re
import threading
import time

from horsies import AppConfig, Horsies, PostgresConfig, TaskError, TaskResult

URL = os.environ.get("HORSIES_DATABASE_URL", "postgresql://nobody@localhost/nowhere")
app = Horsies(
    AppConfig(
        broker=PostgresConfig(database_url=URL),
        allow_looks=os.environ.get("HANG_APP_LOOKS") != "forbidden",
        failed_output_bytes=int(os.environ.get("HANG_APP_KEPT", "4096")),
        prefetch_buffer=int(os.environ.get("HANG_APP_PREFETCH", "0")),
        claim_lease_ms=60_000,
    )
)
Out = TaskResult[None, TaskError]
lock = threading.Lock()
lock.acquire()


class Order:
    def __repr__(self) -> str:
        raise RuntimeError("nobody may ask me now")


@app.task("wait_for_a_lock")
def wait_for_a_lock(password: str) -> Out:
    order = Order()
    print("begun", flush=True)
    settle(order, [1, "two", {"card": password}])
    return TaskResult(ok=None)


def settle(order: Order, lines: list[object]) -> None:
    with lock:
        print(order, lines)


@app.task("sleep_long")
def sleep_long() -> Out:
    print("begun", flush=True)
    time.sleep(3_600)
    return TaskResult(ok=None)


@app.task("count_for_ever")
def count_for_ever() -> Out:
    print("begun", flush=True)
    number = 0
    while True:
        number += 1


@app.task("backtrack")
def backtrack() -> Out:
    """C code that holds the GIL for minutes."""
    print("begun", flush=True)
    re.match(r"(a+)+b", "a" * 60)
    return TaskResult(ok=None)


@app.task("hold_the_gil")
def hold_the_gil(threads: int) -> Out:
    """C code that holds the GIL until a signal interrupts it, again and again; `threads` wait for the GIL meanwhile."""
    for _ in range(threads):
        threading.Thread(target=count, daemon=True).start()
    print("begun", flush=True)
    while True:
        ctypes.PyDLL(None).sleep(3_600)


def count() -> None:
    number = 0
    while True:
        number += 1


@app.task("hold_the_gil_once")
def hold_the_gil_once() -> Out:
    print("begun", flush=True)
    ctypes.PyDLL(None).sleep(3_600)
    time.sleep(3_600)
    return TaskResult(ok=None)


@app.task("hold_the_gil_in_the_loop")
async def hold_the_gil_in_the_loop() -> Out:
    print("begun", flush=True)
    while True:
        ctypes.PyDLL(None).sleep(3_600)


@app.task("call_back_and_forth")
def call_back_and_forth(threads: int = 0) -> Out:
    """C code that calls Python code that calls C code: frames come and go with every call."""
    for _ in range(threads):
        threading.Thread(target=count, daemon=True).start()
    print("begun", flush=True)
    while True:
        sorted(range(10), key=Rank)


class Rank:
    def __init__(self, number: int) -> None:
        self.number = number

    def __lt__(self, other: Rank) -> bool:
        return self.number < other.number


@app.task("start_threads")
def start_threads() -> Out:
    thread = threading.Thread(target=upload, name="upload", daemon=True)
    thread.start()
    print("begun", flush=True)
    thread.join()
    return TaskResult(ok=None)


def upload() -> None:
    time.sleep(3_600)


@app.task("await_for_ever")
async def await_for_ever() -> Out:
    print("begun", flush=True)
    await charge()
    return TaskResult(ok=None)


async def charge() -> None:
    await asyncio.wait_for(asyncio.gather(quick(), answer_of_the_bank()), 3_600)


async def quick() -> None: ...


async def answer_of_the_bank() -> None:
    await asyncio.get_running_loop().create_future()


@app.task("await_a_group")
async def await_a_group() -> Out:
    print("begun", flush=True)
    async with asyncio.TaskGroup() as group:
        group.create_task(quick())
        group.create_task(answer_of_the_bank())
    return TaskResult(ok=None)


@app.task("await_the_first")
async def await_the_first() -> Out:
    print("begun", flush=True)
    await asyncio.wait([asyncio.create_task(answer_of_the_bank())])
    return TaskResult(ok=None)


@app.task("await_in_a_thread")
async def await_in_a_thread() -> Out:
    print("begun", flush=True)
    await asyncio.to_thread(upload)
    return TaskResult(ok=None)


@app.task("block_the_loop")
async def block_the_loop() -> Out:
    print("begun", flush=True)
    upload()
    return TaskResult(ok=None)


@app.task("nothing")
def nothing() -> Out:
    return TaskResult(ok=None)


@app.task("take_steps")
def take_steps(pipe: str) -> Out:
    """Each step lasts until the test has opened the pipe for writing and closed it again."""
    print("begun", flush=True)
    first_step(pipe)
    second_step(pipe)
    return TaskResult(ok=None)


def first_step(pipe: str) -> None:
    reader = os.open(pipe, os.O_RDONLY)
    os.read(reader, 1)
    os.close(reader)


def second_step(pipe: str) -> None:
    os.close(os.open(pipe, os.O_RDONLY))


@app.task("write_lines")
def write_lines(count: int, seconds: float) -> Out:
    """Lines on both streams, one of them with an escape sequence, and a record of logging."""
    print("begun", flush=True)
    for number in range(count):
        print(f"line {number}", flush=True)
    print("\x1b[31mred\x1b[0m", flush=True)
    logging.getLogger("shop").warning("low on %s", "paper")
    time.sleep(seconds)
    print("last line", flush=True)
    return TaskResult(ok=None)


@app.task("write_for_ever")
def write_for_ever(lines_per_s: int) -> Out:
    print("begun", flush=True)
    begun, number = time.monotonic(), 0
    while True:
        due = int((time.monotonic() - begun) * lines_per_s)
        if due > number:
            print("\n".join(f"line {each} of a chatty task" for each in range(number, due)), flush=True)
            number = due
        time.sleep(0.005)


@app.task("fail_loudly")
def fail_loudly(how: str) -> Out:
    print("begun", flush=True)
    print("trying postgresql://shop:s3cret@db/shop", flush=True)
    print("the last line", flush=True)
    if how == "die":
        os.kill(os.getpid(), 9)
    return TaskResult(err=TaskError(error_code="REFUSED", message="no")) if how == "fail" else TaskResult(ok=None)
