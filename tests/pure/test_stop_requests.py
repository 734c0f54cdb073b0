"""Stops of plain jobs: one thread of a child hears them, the main thread looks for its own between jobs."""

from __future__ import annotations

import itertools
import logging
import socket

from horsies.run.child.logs import RecordSender
from horsies.run.child.sync_runner import SyncRunner
from horsies.run.outcomes import TaskStopped

STOP = TaskStopped("TASK_INTERRUPTED", "stopped")


def test_stops_that_come_between_two_jobs_are_neither_lost_nor_an_error() -> None:
    """The error ended the child, with all that ran in it; a stop that is lost lets its job run."""
    channel, other = socket.socketpair()
    arriving = itertools.count(1_000)
    heard: set[int] = set()

    class Number(int):
        """A job's number. Whenever it is compared, the other thread hears one more stop."""

        def __lt__(self, other: object) -> bool:
            heard.add(number := next(arriving))
            runner.stop(number, STOP)
            return int(self) < int(other)  # type: ignore[call-overload, no-any-return]

        def __gt__(self, other: object) -> bool:
            return not self < other

        __hash__ = int.__hash__

    with channel, other:
        runner = SyncRunner(channel, lambda: None, RecordSender(logging.ERROR, lambda _record: None))
        for number in range(10):
            for late in (Number(number), Number(number + 100)):
                runner.stop(late, STOP)
            assert runner._take_stop(number) is STOP
    assert heard
    assert runner._stops.keys() == heard | set(range(100, 110))
