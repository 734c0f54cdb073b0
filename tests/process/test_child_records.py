"""How a child sends log records: in the middle of another message, in a forked process, and not without end."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from horsies.run.child.logs import RecordSender
from horsies.run.child.stdio import BURST_LINES
from horsies.run.events import OUTPUT_LOGGER_NAME, Events

SCENE = """
import os, signal, socket, threading, time
from horsies.run.child.main import Parent
from horsies.run.frames import FrameReader

ours, theirs = socket.socketpair()
parent = Parent(ours)
"""
INTERRUPTED = """
interrupted = threading.Event()
received = []

def read():
    interrupted.wait()
    frames = FrameReader()
    while len(received) < 2:
        received.extend(frames.feed(theirs.recv(65_536)))

def on_alarm(*_):
    parent.say("log", "short")
    interrupted.set()

reader = threading.Thread(target=read)
reader.start()
signal.signal(signal.SIGALRM, on_alarm)
signal.setitimer(signal.ITIMER_REAL, 0.1)
parent.say("log", "x" * 4_000_000)
reader.join()
print([(kind, len(text)) for kind, text in received])
"""
FORKED = """
def say():
    parent.say("log", "x" * 4_000_000)  # nothing reads it: the lock stays taken

threading.Thread(target=say, daemon=True).start()
while not theirs.recv(1):
    pass
os.register_at_fork(after_in_child=ours.close)
forked = os.fork()
if forked == 0:
    try:
        parent.say("log", "from the fork")
    except OSError:
        os._exit(7)
    os._exit(0)
print(os.waitstatus_to_exitcode(os.waitpid(forked, 0)[1]), flush=True)
os._exit(0)
"""


def run(scene: str) -> str:
    done = subprocess.run([sys.executable, "-c", SCENE + scene], capture_output=True, text=True, timeout=10, check=True)
    return done.stdout.strip()


def test_a_record_in_the_middle_of_a_message_is_sent_after_it() -> None:
    """A signal handler logs, or what the garbage collector finalizes, while this thread sends."""
    assert run(INTERRUPTED) == "[('log', 4000000), ('log', 5)]"


def test_a_fork_in_the_middle_of_a_message_of_another_thread_blocks_nothing() -> None:
    assert run(FORKED) == "7"


@pytest.fixture
def output_logger() -> Iterator[logging.Logger]:
    logger = logging.getLogger(OUTPUT_LOGGER_NAME)
    before = logger.level
    yield logger
    logger.setLevel(before)


def test_a_level_without_a_name_is_one(output_logger: logging.Logger) -> None:
    output_logger.setLevel(15)
    assert RecordSender(Events().child_level, lambda _: None).level == 15


def test_tracebacks_count_for_the_limit() -> None:
    sent: list[Any] = []
    sender = RecordSender(logging.INFO, sent.append)
    for _ in range(BURST_LINES):
        long = {"levelno": logging.ERROR, "msg": "again", "stack_info": "x" * 20_000}
        sender.handle(logging.makeLogRecord(long))
    assert 10 < len(sent) < BURST_LINES / 10


def test_an_excepthook_of_the_application_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    def own(_end: threading.ExceptHookArgs) -> None: ...

    monkeypatch.setattr(threading, "excepthook", own)
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [])
    monkeypatch.setattr(root, "level", logging.INFO)
    RecordSender(logging.INFO, lambda _: None).install()
    assert threading.excepthook is own


def test_a_record_that_is_sent_is_sent_once_and_keeps_its_own_fields(monkeypatch: pytest.MonkeyPatch) -> None:
    """An application that writes all fields of a record as JSON shows those of the record, and no mark of ours."""
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [])
    monkeypatch.setattr(root, "level", logging.INFO)
    shop, fields = logging.getLogger("shop.orders"), list[set[str]]()
    own = logging.Handler()
    own.emit = lambda record: fields.append(set(vars(record)))  # type: ignore[method-assign]
    monkeypatch.setattr(shop, "handlers", [logging.StreamHandler(sys.stderr), own])
    sent: list[Any] = []
    RecordSender(logging.INFO, sent.append).install()
    shop.info("shipped", extra={"order": 7})
    assert [record[2] for record in sent] == ["shipped"]
    assert fields[0] - set(vars(logging.makeLogRecord({}))) - {"message", "asctime", "taskName"} == {"order"}
