"""The guard and the children of a worker, forked from a process that has imported what they import.

A child until it is ready costs 0.2 s of processor time with a Python of its own, and 0.01 s so. The worker of a test
(`forked_commands.py`) forks the nursery before it starts threads; the nursery has no threads, and what it forks is a
child of the worker: the worker waits for it and kills it, and the kernel kills it with the worker. What a child does
is unchanged from the first line of its `main()` on. A process of tests that is the parent of children itself
(`tests/process/test_child.py`) has a nursery that is a program of its own. Tests about the start and the parent of a
child, `tests/process/test_child_parent.py`, have children with a Python of their own, and so has every worker where the
kernel or the C library is another one.
"""

from __future__ import annotations

import atexit
import ctypes
import fcntl
import gc
import inspect
import os
import pickle
import signal
import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, NoReturn

from setproctitle import setproctitle

from horsies.run import guard
from horsies.run.child import main as child_main
from horsies.run.die_with_parent import die_with
from horsies.run.pool import process

TITLE: Final = "nursery of the tests"
_CALL: Final = inspect.signature(subprocess.Popen._execute_child)
_LARGEST: Final = 1_000_000
_MOST_DESCRIPTORS: Final = 30
_ABOVE_ALL: Final = 512
_CLONE3: Final = 435
_CLONE_PARENT: Final = 0x8000
_CLONE_CHILD_SETTID: Final = 0x1000000
_SIZE_OF_A_THREAD: Final = 2_048
_PROGRAMS: Final[tuple[tuple[str, Callable[[], None]], ...]] = (
    (child_main.__name__, child_main.main),
    (guard.__file__, guard.main),
)


_Become = Callable[[Sequence[str], dict[str, str], str], None]
"""Gives a process its arguments, environment, directory and streams."""


class Nursery:
    """The parent's side of it."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel

    def ask(self, words: Sequence[str], environ: dict[str, str], numbers: list[int], descriptors: list[int]) -> int:
        """The id of the new process, or 0 if it cannot be forked here."""
        message = pickle.dumps((words, environ, os.getcwd(), numbers))  # noqa: PTH109 - as it is passed on
        socket.send_fds(self._channel, [message], descriptors)
        return int(self._channel.recv(100))

    def popen(self) -> type[subprocess.Popen[bytes]]:
        """What forks the guard and children, and starts every other program."""
        nursery = self

        class Forked(subprocess.Popen[bytes]):
            def _execute_child(self, *given: Any) -> None:
                call = _CALL.bind(self, *given).arguments
                numbers = sorted(call["pass_fds"])
                descriptors = [call["p2cread"], call["c2pwrite"], call["errwrite"], *numbers]
                self.pid = nursery.ask(call["args"], call["env"] or dict(os.environ), numbers, descriptors)
                if not self.pid:
                    super()._execute_child(*given)
                    return
                self._child_created = True
                pipes = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")
                self._close_pipe_fds(*(call[name] for name in pipes))

        return Forked


def fork_children(become: _Become) -> None:
    """From now on the children of this process are forked."""
    if sys.platform != "linux":
        return
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    parent = os.getpid()
    if not os.fork():
        ours.close()
        _serve(theirs, parent, become)
    theirs.close()
    process.subprocess = SimpleNamespace(Popen=Nursery(ours).popen(), DEVNULL=subprocess.DEVNULL)


@contextmanager
def forked_here() -> Iterator[None]:
    """Children that this process of tests starts meanwhile are forked."""
    if sys.platform != "linux":
        yield
        return
    before = process.subprocess
    process.subprocess = SimpleNamespace(Popen=_of_the_tests().popen(), DEVNULL=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.subprocess = before


@cache
def _of_the_tests() -> Nursery:
    """Not a fork of this process, which has threads and is large. It ends when this one closes the socket or dies."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    here = os.pathsep.join(filter(None, (str(Path(__file__).parent), os.environ.get("PYTHONPATH"))))
    with theirs:
        started = subprocess.Popen(
            [sys.executable, "-P", "-m", Path(__file__).stem, str(theirs.fileno()), str(os.getpid())],
            env={**os.environ, "PYTHONPATH": here},
            stdin=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
        )

    def end() -> None:
        ours.close()
        started.wait()

    atexit.register(end)
    return Nursery(ours)


def _serve(channel: socket.socket, parent: int, become: _Become) -> NoReturn:
    die_with(parent)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})  # children inherit it, as from a worker
    setproctitle(TITLE)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):  # those of the worker have readers that wait for their end
        os.dup2(nowhere, stream)
    place = _place_of_thread_id()
    while True:
        message, descriptors, _, _ = socket.recv_fds(channel, _LARGEST, _MOST_DESCRIPTORS)
        if not message:
            os._exit(0)
        words, environ, directory, numbers = pickle.loads(message)
        main = next((main for name, main in _PROGRAMS if name in words), None)
        pid = _fork_a_sibling(place) if main is not None and place is not None else -1
        if pid == 0 and main is not None:
            channel.detach()
            _place(descriptors, numbers)
            become(words, environ, directory)
            _run(main, words)
        channel.send(b"%d" % max(pid, 0))
        for descriptor in descriptors:
            os.close(descriptor)


def _place(descriptors: list[int], numbers: list[int]) -> None:
    """Give the streams and the other descriptors the numbers that they have in the worker, and close all others."""
    spare = [fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, _ABOVE_ALL) for descriptor in descriptors]
    os.closerange(3, _ABOVE_ALL)
    for number, descriptor in zip([0, 1, 2, *numbers], spare, strict=True):
        os.dup2(descriptor, number)
        os.close(descriptor)


def _run(main: Callable[[], None], words: Sequence[str]) -> NoReturn:
    setproctitle(" ".join(words))
    try:
        main()
    except BaseException:  # noqa: BLE001 - as the interpreter ends a program
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def _place_of_thread_id() -> int | None:
    """Where the C library keeps the id of this thread for pthread_kill(): fork() sets it there, clone3() does not."""
    begin = threading.get_ident()
    found = [at for at in range(begin, begin + _SIZE_OF_A_THREAD, 4) if _number_at(at) == threading.get_native_id()]
    return found[0] if len(found) == 1 else None


def _number_at(address: int) -> int:
    return ctypes.c_int.from_address(address).value


def _fork_a_sibling(thread_id: int) -> int:
    """As os.fork(), but the new process is a child of this one's parent. A negative number where that is refused."""
    library = ctypes.PyDLL(None)
    arguments = (ctypes.c_uint64 * 8)(_CLONE_PARENT | _CLONE_CHILD_SETTID, 0, thread_id)
    sys.stdout.flush()
    ctypes.pythonapi.PyOS_BeforeFork()
    pid = int(library.syscall(_CLONE3, ctypes.byref(arguments), ctypes.c_size_t(ctypes.sizeof(arguments))))
    if pid:
        ctypes.pythonapi.PyOS_AfterFork_Parent()
    else:
        ctypes.pythonapi.PyOS_AfterFork_Child()
    return pid


def _main() -> NoReturn:
    become = import_module("forked_commands")._take_as_child
    sys.path.remove(str(Path(__file__).parent))
    gc.collect()
    gc.freeze()
    _serve(socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2]), become)


if __name__ == "__main__":
    _main()
