"""A program with one child for test_child.py to kill and interrupt: `child_parent.py LOCATOR TASK ARGS_JSON`."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys

from horsies.config.recovery import RecoveryConfig
from horsies.run.contract import LeaseTerms
from horsies.run.guard import clock
from horsies.run.pool.child import Child, ChildSpec, Job
from horsies.run.pool.guard import Guard


async def main(locator: str, task_name: str, args: str) -> None:
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGINT, print, "interrupted")

    def on_result(_child: object, _key: str, result: object) -> None:
        print("result", result)
        ended.set()

    terms = LeaseTerms.of(RecoveryConfig())
    guard = Guard(terms, lambda _guard, returncode: print("guard ended", returncode))
    child = await Child.start(
        ChildSpec(locator, 1, 4, None, "horsies: child 1 of test", logging.WARNING, terms),
        guard,
        on_result=on_result,
        on_output=lambda _child, _key, _stream, line: print("output", line),
        on_log=lambda _child, _key, record: print("log", *record[:3]),
        on_progress=lambda _key, _reading: None,
        on_exit=lambda _child, end: print("exit", end),
    )
    print("child", child.pid)
    child.submit(Job("key", task_name, args, None), clock())
    await ended.wait()
    await child.close(5)
    await guard.close()


if __name__ == "__main__":
    sys.stdout.reconfigure(line_buffering=True)
    asyncio.run(main(*sys.argv[1:]))
