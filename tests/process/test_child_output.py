"""Output and log records of a child: the task they belong to, what cuts them, and their limit."""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from forked_commands import Program
from hypothesis import given, strategies as st

from horsies.run.child.stdio import BURST_LINES, END, MARK, RecordSender
from horsies.run.events import OUTPUT_LOGGER_NAME, Events
from horsies.run.pool.output import OutputReader


class Pipe:
    """A pipe with a reader at one end and the test at the other."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        reading, self.writing = os.pipe()
        self.lines: list[tuple[str | None, str]] = []
        self.running: str | None = None
        self.reader = OutputReader(
            loop, reading, lambda key, line: self.lines.append((key, line)), lambda: self.running
        )

    def write(self, text: bytes) -> None:
        os.write(self.writing, text)
        self.reader.read()

    def finish(self) -> list[tuple[str | None, str]]:
        os.close(self.writing)
        self.reader.finish()
        return self.lines


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    made = asyncio.new_event_loop()
    yield made
    made.close()


def marked(key: str, text: bytes) -> bytes:
    return MARK + key.encode() + END + text + MARK + END


STREAM = (
    marked("a", b"one\n") + b"raw\n" + marked("b", b"two ") + marked("b", b"halves\n") + marked("a", b"three\nfour\n")
)
LINES = [("a", "one"), (None, "raw"), ("b", "two halves"), ("a", "three"), ("a", "four")]


@given(st.lists(st.integers(0, len(STREAM)), max_size=6).map(sorted))
def test_lines_keep_their_job_wherever_the_pipe_cuts_them(cuts: list[int]) -> None:
    loop = asyncio.new_event_loop()
    pipe = Pipe(loop)
    for begin, end in zip([0, *cuts], [*cuts, len(STREAM)], strict=True):
        if begin < end:
            pipe.write(STREAM[begin:end])
    assert pipe.finish() == LINES
    loop.close()


def test_what_bears_no_mark_belongs_to_the_only_job_that_runs(loop: asyncio.AbstractEventLoop) -> None:
    pipe = Pipe(loop)
    pipe.running = "a"
    pipe.write(b"from C\n")
    pipe.running = None
    pipe.write(b"from nobody\n")
    assert pipe.finish() == [("a", "from C"), (None, "from nobody")]


def test_a_line_without_end_comes_out_when_its_job_ends(loop: asyncio.AbstractEventLoop) -> None:
    pipe = Pipe(loop)
    pipe.write(marked("a", b"no end"))
    assert pipe.lines == []
    pipe.reader.job_ended("b")
    assert pipe.lines == []
    pipe.reader.job_ended("a")
    assert pipe.finish() == [("a", "no end")]


def test_of_a_progress_bar_the_last_state_counts(loop: asyncio.AbstractEventLoop) -> None:
    pipe = Pipe(loop)
    pipe.write(b"10%\r50%\r100%\r\n")
    assert pipe.finish() == [(None, "100%")]


def test_bytes_that_are_no_utf_8_and_bare_mark_characters_do_no_harm(loop: asyncio.AbstractEventLoop) -> None:
    pipe = Pipe(loop)
    pipe.write(b"\xff\x1e\n\x1e")
    pipe.write(b"end\n")
    assert pipe.finish() == [(None, "\ufffd\x1e"), (None, "\x1eend")]


def test_a_line_that_never_ends_is_cut(loop: asyncio.AbstractEventLoop) -> None:
    pipe = Pipe(loop)
    for _ in range(20):
        pipe.write(b"x" * 4_096)
    lines = [line for _, line in pipe.finish()]
    assert sum(map(len, lines)) == 20 * 4_096
    assert max(map(len, lines)) <= 8_192


def test_a_flood_is_cut_down_and_counted(loop: asyncio.AbstractEventLoop) -> None:
    pipe = Pipe(loop)
    for _ in range(20):
        pipe.write(marked("a", b"line\n" * 1_000))
    pipe.reader.job_ended("a")
    lines = [line for _, line in pipe.finish()]
    left_out = [int(line.split()[1].replace(",", "")) for line in lines if "left out" in line]
    assert BURST_LINES <= len(lines) < 20_000
    assert sum(left_out) + len(lines) - len(left_out) == 20_000
    assert {key for key, _ in pipe.lines} == {"a"}


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
    with Program(SCENE + scene, stdout=subprocess.PIPE, text=True) as program:
        out, _ = program.communicate(timeout=60)
    assert program.returncode == 0
    return str(out).strip()


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
