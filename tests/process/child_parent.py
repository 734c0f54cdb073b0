"""A program with one child for test_child_parent.py to kill and interrupt."""

from __future__ import annotations

import asyncio
import logging
import signal

from horsies.config.recovery import RecoveryConfig
from horsies.domain.progress_pace import Reading
from horsies.run.contract import ChildExit, ChildResult, ChildSpec, Job, LeaseTerms, LogRecord, Stream
from horsies.run.guard import clock
from horsies.run.pool.child import Child
from horsies.run.pool.process import Guard


class Printing:
    """Prints what the child reports."""

    def __init__(self, has_ended: asyncio.Event) -> None:
        self._has_ended = has_ended

    def ended(self, _child: Child, _key: str, result: ChildResult) -> None:
        print("result", result)
        self._has_ended.set()

    def printed(self, _child: Child, _key: str | None, _stream: Stream, line: str) -> None:
        print("output", line)

    def logged(self, _child: Child, _key: str | None, record: LogRecord) -> None:
        print("log", *record[:3])

    def reported(self, _key: str, _reading: Reading) -> None: ...

    def exited(self, _child: Child, end: ChildExit) -> None:
        print("exit", end)


async def main(locator: str, task_name: str, args: str) -> None:
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGINT, print, "interrupted")

    terms = LeaseTerms.of(RecoveryConfig())
    guard = Guard(terms, lambda _guard, returncode: print("guard exited", returncode))
    spec = ChildSpec(locator, 1, 4, None, "horsies: child 1 of test", logging.WARNING, terms)
    child = await Child.start(spec, guard, Printing(ended))
    print("child", child.pid)
    child.submit(Job("key", task_name, args, None), clock())
    await ended.wait()
    await child.close(5)
    await guard.close()
