"""Lines of a child's output pipe: the task they belong to, lines cut by the pipe, and their limit."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator

import pytest
from hypothesis import given, strategies as st

from horsies.run.child.stdio import BURST_LINES, END, MARK
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
