"""The child process: imports the application once, runs jobs, ends with its parent.

Run as `python -P -m horsies.run.child.main PARENT_PID TABLE_FD PROGRESS_FD WAITS_FD GUARD_FD DUMP_FD CONTROL_FD
SYNC_FD ASYNC_FD`. The first message on the control socket names what to import; later messages stop jobs, ask for the
stack of one, and set the title that `ps` shows.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import logging
import os
import signal
import socket
import sys
import threading
import traceback
from collections import deque
from typing import TYPE_CHECKING, Any, Final

from setproctitle import setproctitle

from horsies import registry
from horsies.config.contexts import DatabaseChoice
from horsies.config.url import DatabaseUrl
from horsies.domain.codec import clean_text
from horsies.domain.errors import HorsiesError, flatten
from horsies.locate import locate_app
from horsies.registry import LOGGER
from horsies.run.child.async_runner import AsyncRunner, current_key
from horsies.run.child.hooks import ChildHooks
from horsies.run.child.leases import ChildLeases, end_with_guard
from horsies.run.child.stack import dump_on_signal
from horsies.run.child.stdio import RecordSender, mark_prints
from horsies.run.child.sync_runner import SyncRunner
from horsies.run.contract import LeaseTerms
from horsies.run.die_with_parent import die_with
from horsies.run.frames import CHUNK, FrameReader, pack
from horsies.run.guard import LeaseTable
from horsies.run.outcomes import TaskStopped
from horsies.run.progress_table import ProgressTable
from horsies.task.current import forget_runs
from horsies.waits_in_tasks import SiblingWaits, share_waits
from horsies.workflow.definition import known_definitions

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from horsies.app import Horsies
    from horsies.run.child.execute import Tasks
    from horsies.run.contract import LogRecord

_REASON_LIMIT: Final = 32_000
_LOG_FORMAT: Final = "%(levelname)s %(name)s: %(message)s"


class Parent:
    """The control socket. When the parent ends, this process exits at once, whatever its threads are doing."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._frames = FrameReader()
        self._unsent: deque[bytes] = deque()
        self._sending = False
        self._lock = threading.RLock()

    def say(self, *message: Any) -> None:
        """OSError in a process that user code has forked.

        A signal handler or the garbage collector may call it in the middle of itself, for what they log. Such a message
        is sent after the one that it interrupts.
        """
        if self._control.fileno() < 0:  # before the lock: another thread, which is not here, may have held it at fork
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        self._unsent.append(pack([message]))
        with self._lock:
            if self._sending:
                return
            self._sending = True
            try:
                while self._unsent:
                    self._control.sendall(self._unsent.popleft())
            finally:
                self._sending = False

    def messages(self) -> list[Any]:
        """Wait for the next messages."""
        while True:
            try:
                data = self._control.recv(CHUNK)
            except OSError:
                data = b""
            if not data:
                os._exit(1)
            if messages := self._frames.feed(data):
                return messages


def main() -> None:
    parent_pid, table_fd, progress_fd, waits_fd, guard_pipe, dump, *descriptors = map(int, sys.argv[1:])
    die_with(parent_pid)
    end_with_guard(guard_pipe)
    os.set_inheritable(guard_pipe, False)
    dump_on_signal(dump)
    table = LeaseTable(table_fd)
    os.close(table_fd)
    progress = ProgressTable(progress_fd)
    os.close(progress_fd)
    _ignore_terminal()
    sockets = [socket.socket(fileno=descriptor) for descriptor in descriptors]
    for each in sockets:
        each.set_inheritable(False)
    _ForkGuard().install(sockets)
    try:
        _serve(table, progress, waits_fd, *sockets)
    except BaseException:  # noqa: BLE001 - threads that user code has left behind must not keep a broken child alive
        traceback.print_exc()
        os._exit(1)
    with contextlib.suppress(Exception):
        atexit._run_exitfuncs()  # noqa: SLF001 - a full interpreter exit would wait for threads left behind
    os._exit(0)


def _serve(
    table: LeaseTable,
    progress: ProgressTable,
    waits_fd: int,
    control: socket.socket,
    sync_channel: socket.socket,
    async_channel: socket.socket,
) -> None:
    parent = Parent(control)
    (locator, database_url, path, title, log_level, limit, first_async_slot, terms, index), *_ = parent.messages()
    setproctitle(title)
    share_waits(SiblingWaits(waits_fd, index - 1))
    os.close(waits_fd)
    flush_output = mark_prints(lambda: current_key.get() or plain.current_key)

    def send_record(record: LogRecord) -> None:
        with plain.shielded():
            parent.say("log", current_key.get() or plain.current_key, record)

    logs = RecordSender(log_level, send_record)
    plain = SyncRunner(sync_channel, flush_output, logs)
    runners: list[SyncRunner | AsyncRunner] = [plain]
    listener = threading.Thread(target=_listen, args=(parent, runners), name="horsies parent", daemon=True)
    listener.start()
    _take_sigterm(plain)

    sys.path[:] = path
    app = _load(locator, database_url, parent)
    tasks: Tasks = dict(app.tasks)
    logs.install()
    # Again: modules of the application may have replaced our handlers with their own.
    _ignore_terminal()
    _take_sigterm(plain)

    leases = ChildLeases(
        table,
        LeaseTerms(*terms),
        lambda slot, number, stop: runners[slot >= first_async_slot].stop(number, stop),
        lambda: any(runner.has_leftover_tasks() for runner in runners if isinstance(runner, AsyncRunner)),
    )
    coroutines = [name for name, task in tasks.items() if task.is_async]
    threads = [threading.get_native_id()]
    many: AsyncRunner | None = None
    hooks: ChildHooks | None = None
    if coroutines or app.hooks.of_child():
        many = AsyncRunner(async_channel, tasks, limit, leases, progress, app.tracing, flush_output, logs)
        runners.append(many)
        threads.append(many.start())
        if app.hooks.of_child():
            hooks = many.hooks = ChildHooks(app.hooks.of_child(), many.wait_for)
            hooks.child_started()
    leases.start()
    facts = [(name, task.is_async, task.timeout_ms, task.requeue_on_interrupt) for name, task in tasks.items()]
    parent.say("ready", facts, repr(app.config), known_definitions(), listener.native_id, threads)
    plain.run(tasks, leases, progress, app.tracing, hooks)
    if many is not None:
        many.join()
    if hooks is not None:
        hooks.child_stopped()
    flush_output()


def _listen(parent: Parent, runners: list[SyncRunner | AsyncRunner]) -> None:
    """Handle requests of the parent while the main thread is busy with user code."""
    while True:
        for kind, *rest in parent.messages():
            if kind == "title":
                setproctitle(rest[0])
            elif kind == "stack":
                question, kind_of_runner, number, with_locals = rest
                try:
                    stack = runners[kind_of_runner].stack(number, with_locals=with_locals)
                except Exception as error:  # noqa: BLE001 - frames change while they are read; this thread stops jobs, too
                    stack = {"frames": [], "threads": [], "problem": f"{type(error).__name__}: {error}"}
                parent.say("stack", question, stack)
            else:
                kind_of_runner, number, code, message = rest
                runners[kind_of_runner].stop(number, TaskStopped(code, message))


def _load(locator: str, database_url: str | None, parent: Parent) -> Horsies:
    """Import the application and its tasks. If that fails, send the parent the reason and end this process."""
    try:
        with _discovery_logs():
            app = locate_app(locator)
            if database_url is not None:
                app.use_database(DatabaseChoice(DatabaseUrl.parse(database_url), "that of the worker"))
            app.import_task_modules()
        return app
    except HorsiesError as error:
        reason = "\n".join([str(error), *map(_cause, flatten([error]))]).rstrip()
    except BaseException:  # noqa: BLE001 - the user's modules run in here
        reason = traceback.format_exc()
    parent.say("failed", clean_text(reason, _REASON_LIMIT))
    os._exit(1)


def _cause(error: HorsiesError) -> str:
    """Return the traceback of what a module raised when it was imported; the error alone names only a line."""
    cause = error.__cause__
    if cause is None:
        return ""
    frames = cause.__traceback__
    while frames is not None and _imports(frames.tb_frame.f_code.co_filename):
        frames = frames.tb_next
    return "".join(traceback.format_exception(type(cause), cause, frames))


def _imports(filename: str) -> bool:
    """Return whether this file imports modules: the traceback that is shown begins below its frames."""
    return filename == registry.__file__ or "importlib" in filename


@contextlib.contextmanager
def _discovery_logs() -> Iterator[None]:
    """Log imports with HORSIES_CHILD_DISCOVERY_LOGS=1 only: each child imports what its parent has imported."""
    if os.environ.get("HORSIES_CHILD_DISCOVERY_LOGS") != "1":
        yield
        return
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter(_LOG_FORMAT))
    level, propagate = LOGGER.level, LOGGER.propagate
    LOGGER.setLevel(logging.DEBUG)
    LOGGER.propagate = False
    LOGGER.addHandler(handler)
    try:
        yield
    finally:
        LOGGER.removeHandler(handler)
        LOGGER.setLevel(level)
        LOGGER.propagate = propagate


def _ignore_terminal() -> None:
    """Ignore ctrl+c and the end of a terminal: they reach the whole process group, and the parent decides."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)


def _take_sigterm(runner: SyncRunner) -> None:
    signal.signal(signal.SIGTERM, runner.on_sigterm)
    # The parent starts this process with these signals blocked, so that none arrives before this line.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT, signal.SIGTERM, signal.SIGHUP})


class _ForkGuard(threading.local):
    """Blocks SIGTERM while user code forks, in several threads perhaps. The new process must not act for the child.

    A SIGTERM that arrives before the new process has removed our handler is lost: Python forgets signals that are
    pending at a fork, and our handler ignores those that the parent did not send.
    """

    def __init__(self) -> None:
        self.mask: set[signal.Signals | int] = set()

    def install(self, sockets: Sequence[socket.socket]) -> None:
        def leave() -> None:
            for each in sockets:
                each.close()
            forget_runs()
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            self._restore()

        os.register_at_fork(before=self._block, after_in_parent=self._restore, after_in_child=leave)

    def _block(self) -> None:
        self.mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})

    def _restore(self) -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, self.mask)


if __name__ == "__main__":
    main()
