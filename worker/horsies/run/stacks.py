"""The parent's side of a stack: asked of the child's Python, or taken from the interpreter's own dump."""

from __future__ import annotations

import asyncio
import linecache
import os
import re
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Final

from horsies.run.child_stack import DUMP_SIGNAL, MOST_FRAMES, OURS, is_users

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from horsies.run.child_stack import Frame, Stack

_ANSWER_S: Final = 0.15
"""Python answers within 5 ms, unless C code holds the GIL; other Python code lets it go every 5 ms."""
_DUMP_S: Final = 1.5
_LOOK_S: Final = 0.01
_LARGEST: Final = 1 << 20
_MAIN_THREAD: Final = re.compile(rb"( in _run_module_as_main|  \.\.\.)\n+\Z")
"""Its outermost frame, or where the interpreter cuts a deep stack."""

_THREAD: Final = re.compile(r"(?:Current thread|Thread) 0x[0-9a-f]+.*\(most recent call first\):")
_FRAME: Final = re.compile(r'  File "(?P<file>.*)", line (?P<line>\d+) in (?P<function>.*)')
_RUNNERS: Final = ("sync_runner.py", "async_runner.py")
_RUN: Final = f"{Path(__file__).parent}{os.sep}"
_POOL: Final = str(Path("concurrent", "futures", "thread.py"))


class StackReader:
    """The stacks of one child. `ask` sends a message to it, `signal` a signal."""

    def __init__(self, dump: int, ask: Callable[..., None], signal: Callable[[int], None]) -> None:
        self._dump = dump
        self._ask = ask
        self._signal = signal
        self._questions = count()
        self._asked: dict[int, asyncio.Future[Stack | None]] = {}
        self._dumping = asyncio.Lock()
        self._closed = False

    async def read(self, kind: int, number: int, *, with_locals: bool) -> Stack | None:
        """What this job is doing; None if it does not run. `how` says who answered: `python`, or `interpreter`."""
        question = next(self._questions)
        answer = self._asked[question] = asyncio.get_running_loop().create_future()
        self._ask("stack", question, kind, number, with_locals)
        try:
            async with asyncio.timeout(_ANSWER_S):
                found = await answer
        except TimeoutError:
            async with self._dumping:
                dump = await self._dumped()
            if dump is None:
                return None
            threads = list(_threads(dump))
            own = next((one for ours, one in threads if ours == _RUNNERS[kind]), [])
            others = [("", one) for ours, one in threads if ours is None and one]
            return {"how": "interpreter", "frames": own, "threads": others}
        finally:
            del self._asked[question]
        return None if found is None else {"how": "python"} | found

    def heard(self, question: int, stack: Stack | None) -> None:
        """The child's answer, which may come too late."""
        answer = self._asked.get(question)
        if answer is not None and not answer.done():
            answer.set_result(stack)

    def close(self) -> None:
        """The child has ended. The number of the descriptor may stand for another file from now on."""
        os.close(self._dump)
        self._closed = True
        for answer in self._asked.values():
            if not answer.done():
                answer.set_result(None)

    async def _dumped(self) -> str | None:
        """None: the child has ended.

        A dump has no end: it is complete when it does not grow any more, and has the main thread, which comes last.
        """
        if self._closed:
            return None
        os.truncate(self._dump, 0)
        os.lseek(self._dump, 0, os.SEEK_SET)
        self._signal(DUMP_SIGNAL)
        text, loop = b"", asyncio.get_running_loop()
        end = loop.time() + _DUMP_S
        while loop.time() < end:
            await asyncio.sleep(_LOOK_S)
            if self._closed:
                return None
            before, text = text, os.pread(self._dump, _LARGEST, 0)
            if text == before and _MAIN_THREAD.search(text):
                break
        return text.decode(errors="replace")


def _threads(dump: str) -> Iterator[tuple[str | None, list[Frame]]]:
    """The frames of each thread, with the module of ours that runs tasks there; `other` for other threads of ours."""
    _, *parts = _THREAD.split(dump)
    for part in parts:
        frames = [_frame(found) for line in part.splitlines() if (found := _FRAME.fullmatch(line))]
        beneath = [Path(one["file"]).name for one in frames if one["file"].startswith(_RUN)]
        runner = next((name for name in beneath if name in _RUNNERS), "other" if beneath else None)
        if not (frames and frames[0]["function"] == "_worker" and frames[0]["file"].endswith(_POOL)):
            yield runner, _of_user_code(frames)


def _of_user_code(frames: list[Frame]) -> list[Frame]:
    """Without our frames beneath it, and what is beneath those: the start of the thread, or the loop of asyncio."""
    end = next((place for place, one in enumerate(frames) if one["file"].startswith(_RUN)), len(frames))
    while end and frames[end - 1]["file"].startswith(OURS):
        end -= 1
    return frames[: min(end, MOST_FRAMES)]


def _frame(found: re.Match[str]) -> Frame:
    file, line = found["file"], int(found["line"])
    return {
        "file": file,
        "line": line,
        "function": found["function"],
        "source": linecache.getline(file, line).strip(),
        "user": is_users(file),
    }
