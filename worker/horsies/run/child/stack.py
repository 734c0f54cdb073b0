"""The Python stack of a job, read inside its child process: by the thread that listens to the parent.

That thread needs the GIL. If user code holds it in C code, the interpreter's own dump answers instead: its signal
handler runs without the GIL (`dump_on_signal`), in the thread whose frames it writes.
"""

from __future__ import annotations

import faulthandler
import linecache
import os
import signal
import sys
import sysconfig
import threading
from asyncio import Future, Task
from concurrent.futures import thread as pool
from functools import cache
from itertools import islice
from pathlib import Path
from types import AsyncGeneratorType, CoroutineType, GeneratorType
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from horsies.run.child.execute import execute, execute_async

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import CodeType, FrameType

DUMP_SIGNAL: Final = signal.SIGRTMIN + 11 if hasattr(signal, "SIGRTMIN") else signal.SIGUSR2
"""One that applications do not use: SIGUSR1 and SIGUSR2 are often theirs."""
MOST_FRAMES: Final = 100
_MOST_THREADS: Final = 8
_MOST_LOCALS: Final = 40
_MOST_ITEMS: Final = 8
_LONGEST: Final = 120
_DEPTH: Final = 3
_IDLE: Final = pool._worker.__code__  # noqa: SLF001 - where a thread of a pool waits
_BEGINNINGS: Final = (execute.__code__, execute_async.__code__)
OURS: Final = f"{Path(__file__).parents[2]}{os.sep}"

Stack: TypeAlias = "dict[str, Any]"
"""`frames` of the task, innermost first, and `threads`: names and frames of those that user code has started."""
Frame: TypeAlias = "dict[str, Any]"
"""`file`, `line`, `function`, `source`, `user`: whether it is the application's own code, and `locals` if asked for."""


def dump_on_signal(fd: int) -> None:
    """Make each thread that gets DUMP_SIGNAL write its own stack there, whatever it is doing.

    Not `all_threads`: the frames of a thread that runs meanwhile are freed while the handler follows them.
    """
    os.set_inheritable(fd, False)
    faulthandler.register(DUMP_SIGNAL, file=fd, all_threads=False)


def stack_of_thread(ident: int | None, *, with_locals: bool) -> list[Frame]:
    """Return the frames of user code in this thread, innermost first."""
    top = sys._current_frames().get(ident or 0)  # noqa: SLF001 - the only way to see another thread
    return [_frame(code, frame, line, with_locals) for code, frame, line in islice(_back(top), MOST_FRAMES)]


def stack_of_task(task: Task[Any], *, loop_thread: int | None, is_current: bool, with_locals: bool) -> list[Frame]:
    """Return the await chain of an asyncio task, innermost first; of a running one, the frames of its thread."""
    if is_current:
        return stack_of_thread(loop_thread, with_locals=with_locals)
    frames = [_frame(frame.f_code, frame, frame.f_lineno, with_locals) for frame in islice(_chain(task), MOST_FRAMES)]
    return frames[::-1]


def other_threads(known: set[int | None], *, with_locals: bool) -> list[tuple[str, list[Frame]]]:
    """Return the threads that user code has started, by name, without those of a pool that wait for work."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    found = []
    for ident, top in sys._current_frames().items():  # noqa: SLF001
        name = names.get(ident, f"thread {ident}")
        if ident not in known and not name.startswith("horsies ") and top.f_code is not _IDLE:
            frames = [_frame(code, frame, line, with_locals) for code, frame, line in islice(_back(top), MOST_FRAMES)]
            found.append((name, frames))
    return found[:_MOST_THREADS]


def _back(top: FrameType | None) -> Iterator[tuple[CodeType, FrameType, int]]:
    """Yield frames from the innermost to the first one of the task, without ours beneath it."""
    frames = []
    while top is not None and top.f_code not in _BEGINNINGS:
        frames.append((top.f_code, top, top.f_lineno or 0))
        top = top.f_back
    while frames and frames[-1][0].co_filename.startswith(OURS):
        frames.pop()
    yield from frames


def _chain(task: Task[Any]) -> Iterator[FrameType]:
    """Yield frames from the outermost coroutine of the task inwards, and on into the tasks that it waits for."""
    seen: set[int] = set()
    waits_for: Any = task
    while isinstance(waits_for, Task) and id(waits_for) not in seen:
        seen.add(id(waits_for))
        frames = list(_awaited(waits_for.get_coro()))
        yield from (frame for frame in frames if not frame.f_code.co_filename.startswith(OURS))
        waits_for = _one_of(getattr(waits_for, "_fut_waiter", None), frames[-1] if frames else None)


def _awaited(step: Any) -> Iterator[FrameType]:
    while True:
        match step:
            case CoroutineType():
                frame, step = step.cr_frame, step.cr_await
            case GeneratorType():
                frame, step = step.gi_frame, step.gi_yieldfrom
            case AsyncGeneratorType():
                frame, step = step.ag_frame, step.ag_await
            case _:
                return
        if frame is None:
            return
        yield frame


def _one_of(future: Any, frame: FrameType | None) -> Any:
    """Return the future behind the one for which the coroutine in this frame waits.

    asyncio's wait_for (before Python 3.12), wait, gather and TaskGroup wait for a future of their own until those of
    the caller have ended.
    """
    behind = {} if frame is None or "asyncio" not in frame.f_code.co_filename else dict(frame.f_locals)
    future = behind.get("fut", future)
    group = getattr(behind.get("self"), "_tasks", ())
    several = [*(getattr(future, "_children", None) or behind.get("fs") or group)]
    return next((one for one in several if isinstance(one, Future) and not one.done()), future)


def _frame(code: CodeType, frame: FrameType, line: int, with_locals: bool) -> Frame:
    file = code.co_filename
    found: Frame = {
        "file": file,
        "line": line,
        "function": code.co_qualname,
        "source": linecache.getline(file, line, frame.f_globals).strip()[:_LONGEST],
        "user": is_users(file),
    }
    if with_locals:
        found["locals"] = _locals(frame)
    return found


def is_users(file: str) -> bool:
    """Return whether the application's authors wrote this code."""
    return not file.startswith(_libraries())


@cache
def _libraries() -> tuple[str, ...]:
    """Return where code lies that the application did not write, the longest path first."""
    paths = sysconfig.get_paths()
    roots = {paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    return (*(root + os.sep for root in roots), OURS, "<frozen")


def _locals(frame: FrameType) -> dict[str, Any]:
    try:
        return {str(name): shown(value) for name, value in islice(dict(frame.f_locals).items(), _MOST_LOCALS)}
    except RuntimeError:  # they change at this moment
        return {}


def shown(value: object, depth: int = _DEPTH) -> Any:
    """The value as plain JSON, cut short. No code of the value's class runs: it could wait for a lock that the task
    holds. Other objects are named by their class."""
    kind = type(value)
    if value is None or kind in (bool, float):
        return value
    if kind is int:
        return value if int.bit_length(value) <= 64 else f"<int of {int.bit_length(value)} bits>"  # type: ignore[arg-type]
    if kind is str:
        return _cut(value)  # type: ignore[arg-type]
    if depth and kind in (list, tuple, set, frozenset):
        return _items(value, depth)
    if depth and kind is dict:
        return _pairs(value, depth)  # type: ignore[arg-type]
    return f"<{kind.__module__}.{kind.__qualname__}>"


def _items(value: Any, depth: int) -> list[Any]:
    try:
        kept = [shown(item, depth - 1) for item in islice(value, _MOST_ITEMS)]
    except RuntimeError:  # a set that changes at this moment
        return ["…"]
    return [*kept, f"… {len(value) - _MOST_ITEMS} more"] if len(value) > _MOST_ITEMS else kept


def _pairs(value: dict[Any, Any], depth: int) -> dict[str, Any]:
    try:
        kept = {str(shown(key, 0)): shown(item, depth - 1) for key, item in islice(value.items(), _MOST_ITEMS)}
    except RuntimeError:
        return {"…": "…"}
    return kept | {"…": f"{len(value) - _MOST_ITEMS} more"} if len(value) > _MOST_ITEMS else kept


def _cut(text: str) -> str:
    clean = text[:_LONGEST].encode(errors="replace").decode().replace("\0", "?")
    return clean if len(text) <= _LONGEST else f"{clean}… {len(text) - _LONGEST} characters more"
