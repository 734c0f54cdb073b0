"""The parent's side of a stack: asked of the child's Python, or taken from the interpreter's own dump.

The dump is for C code that holds the GIL. One thread is interrupted and writes its own frames, without the GIL. It
writes no other thread's: those change while they are read, which ended one child in 450 dumps. A thread that runs
Python is not interrupted either: its newest frame may be half made, and up to 8 % of such dumps ended the process. So
there must be evidence that it does not (`_Activity`).
"""

from __future__ import annotations

import asyncio
import linecache
import os
import re
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from horsies.run.child.stack import DUMP_SIGNAL, MOST_FRAMES, OURS, is_users

if TYPE_CHECKING:
    from collections.abc import Callable

    from horsies.run.child.stack import Frame, Stack

_ANSWER_S: Final = 0.5
"""Python answers within 5 ms for each thread that runs."""
_FIRST_WAITS: Final = 3
_WAITS: Final = 10
_TICKS: Final = 2
_MOST_S: Final = 1.2
_DUMP_S: Final = 0.5
_POLL_S: Final = 0.01
_LARGEST: Final = 1 << 20
_STACK: Final = "Stack (most recent call first):\n"
_CUT: Final = "  ...\n"
_COMPLETE: Final = re.compile(
    rb'(<frozen runpy>", line \d+ in _run_module_as_main|threading\.py", line \d+ in _bootstrap|  \.\.\.)\n\Z'
)
"""The outermost frame of the main thread or of another one, or where the interpreter cuts a deep stack."""
_FRAME: Final = re.compile(r'  File "(?P<file>.*)", line (?P<line>\d+) in (?P<function>.*)')
_SWITCHES: Final = re.compile(r"^voluntary_ctxt_switches:\s+(\d+)$", re.MULTILINE)
_CHILD: Final = Path(__file__).parents[1] / "child"
_BEGINNING: Final = str(_CHILD / "execute.py")
_RUNNERS: Final = str(_CHILD / "sync_runner.py"), str(_CHILD / "async_runner.py")
_NO_ANSWER: Final = "its process does not answer: it is stopped, or has not enough processor time for its threads"
_NOTES: Final = (
    "C code seems to hold the GIL: only the thread of the task is shown",
    "C code seems to hold the GIL: only the thread of the async tasks is shown",
)


class StackReader:
    """The stacks of one child. `ask` sends a message to it, `signal` a signal to one of its threads.

    `listener`, `threads`: the native ids of the thread that answers, of the one that runs plain tasks, and of the one
    that runs async tasks.
    """

    def __init__(self, dump: int, ask: Callable[..., None], signal: Callable[[int, int], None]) -> None:
        self.listener = 0
        self.threads: tuple[int, ...] = ()
        self._dump = dump
        self._ask = ask
        self._signal = signal
        self._questions = count()
        self._asked: dict[int, asyncio.Future[Stack | None]] = {}
        self._dumping = asyncio.Lock()
        self._closed = False

    async def read(self, kind: int, number: int, runs: Callable[[], bool], *, with_locals: bool) -> Stack | None:
        """Return what this job is doing, None if it does not run. `how`: who answered, `python` or `interpreter`."""
        question = next(self._questions)
        answer = self._asked[question] = asyncio.get_running_loop().create_future()
        begun = _Activity.of(self.listener, self.threads[kind])
        self._ask("stack", question, kind, number, with_locals)
        try:
            if await self._is_still(kind, begun, answer):
                async with self._dumping:
                    dump = await self._dumped(kind) if runs() else None
                return None if dump is None or not runs() else _stack(dump, kind)
        finally:
            del self._asked[question]
        if not answer.done():
            return {"problem": _NO_ANSWER}
        found = answer.result()
        return None if found is None else {"how": "python"} | found

    def take_answer(self, question: int, stack: Stack | None) -> None:
        """Take the child's answer, which may come too late."""
        answer = self._asked.get(question)
        if answer is not None and not answer.done():
            answer.set_result(stack)

    def close(self) -> None:
        """Close it: the child has ended. The number of the descriptor may stand for another file from now on."""
        os.close(self._dump)
        self._closed = True
        for answer in self._asked.values():
            if not answer.done():
                answer.set_result(None)

    async def _is_still(self, kind: int, begun: _Activity, answer: asyncio.Future[Stack | None]) -> bool:
        """Return whether the thread of these jobs runs no Python, seen before the child answers or the time is over."""
        loop, before = asyncio.get_running_loop(), begun
        asked_at = loop.time()
        while loop.time() - asked_at < _MOST_S:
            done, _ = await asyncio.wait([answer], timeout=_POLL_S)
            if done:
                return False
            now = _Activity.of(self.listener, self.threads[kind])
            if not now.asks_for_the_gil(begun):
                before = now
            elif loop.time() - asked_at > _ANSWER_S and now.shows_no_python(before):
                return True
        return False

    async def _dumped(self, kind: int) -> str | None:
        """Return the dump of the thread that runs these jobs; empty if none comes, None if the child has ended."""
        if self._closed:
            return None
        os.truncate(self._dump, 0)
        os.lseek(self._dump, 0, os.SEEK_SET)
        self._signal(self.threads[kind], DUMP_SIGNAL)
        loop = asyncio.get_running_loop()
        end = loop.time() + _DUMP_S
        while loop.time() < end:
            await asyncio.sleep(_POLL_S)
            if self._closed:
                return None
            text = os.pread(self._dump, _LARGEST, 0)
            if _COMPLETE.search(text):
                return text.decode(errors="replace")
        return ""


class _Activity(NamedTuple):
    """Counts of how often the answering thread and that of the task began to wait; the state of the latter."""

    answering: int = 0
    waited: int = 0
    ticks: int = 0
    asleep: bool = False

    @classmethod
    def of(cls, listener: int, thread: int) -> _Activity:
        """Read it from /proc: on systems other than Linux there is no such evidence, and so no dump."""
        try:
            waits = [_SWITCHES.findall(Path(f"/proc/{each}/status").read_text()) for each in (listener, thread)]
            stat = Path(f"/proc/{thread}/stat").read_text().rpartition(")")[2].split()
            return cls(int(waits[0][0]), int(waits[1][0]), int(stat[11]) + int(stat[12]), stat[0] in "SD")
        except (OSError, IndexError):
            return cls()

    def asks_for_the_gil(self, begun: _Activity) -> bool:
        """Return whether the answering thread has waited for 5 ms, so that Python code releases the GIL."""
        return self.answering - begun.answering >= _FIRST_WAITS

    def shows_no_python(self, before: _Activity) -> bool:
        """Return whether the task's thread runs no Python, though the answering thread has asked for the GIL.

        Either it sleeps. Or it has run without letting the GIL go; one that competes for the GIL with many others has
        waited for it as often as the answering thread.
        """
        looked, waited = self.answering - before.answering, self.waited - before.waited
        in_c_code = waited <= looked // 4 and self.ticks - before.ticks >= _TICKS
        return looked >= _WAITS and (self.asleep or in_c_code)


def _stack(dump: str, kind: int) -> Stack:
    # A process that was stopped may have written for an earlier question as well: the last dump counts.
    frames = [_frame(found) for found in map(_FRAME.fullmatch, dump.rpartition(_STACK)[2].splitlines()) if found]
    files = [one["file"] for one in frames]
    if _RUNNERS[kind] not in files and not dump.endswith(_CUT):
        return {"problem": _NO_ANSWER}
    end = next((index for index, file in enumerate(files) if file in (_BEGINNING, _RUNNERS[kind])), len(files))
    while end and files[end - 1].startswith(OURS):
        end -= 1
    return {"how": "interpreter", "frames": frames[: min(end, MOST_FRAMES)], "threads": [], "note": _NOTES[kind]}


def _frame(found: re.Match[str]) -> Frame:
    file, line = found["file"], int(found["line"])
    return {
        "file": file,
        "line": line,
        "function": found["function"],
        "source": linecache.getline(file, line).strip(),
        "user": is_users(file),
    }
