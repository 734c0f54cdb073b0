"""`horsies` commands in processes of their own, forked from one that has imported the package.

To list tasks costs 0.05 s of processor time so, and 0.4 s with the installed script, most of it for imports; a worker
until it is ready costs 0.1 s, not 0.9 s; the console until it shows rows 0.35 s, not 0.8 s. After the fork nothing
differs: `main()` runs with its own arguments, environment, directory, streams, terminal and signals. Where the encoding
or Python's own variables differ from those of the tests (a PYTHONPATH!), and on systems without pidfds, the installed
script is started. The tests of the README, of the demo and of the time that a start takes always start it.
"""

from __future__ import annotations

import atexit
import fcntl
import gc
import inspect
import io
import os
import pickle
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import termios
import threading
import time
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from typing import Any, AnyStr, NamedTuple, NoReturn

import setproctitle

HORSIES = Path(sys.executable).with_name("horsies")
_HERE = str(Path(__file__).parent)
_PACKAGES = ("horsies", "horsies_tui")
_SHARED_VARIABLE = "HORSIES_TEST_FORKS"
_LISTEN = "listen"
_LARGEST = 1_000_000
_TAKEN_OVER = {"PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE"}
_CALL = inspect.signature(subprocess.Popen._execute_child)
_PIPES = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")


class _Request(NamedTuple):
    words: list[str]
    environ: dict[str, str]
    directory: str
    new_session: bool
    terminal: bool


def take_terminal() -> None:
    """A `preexec_fn` for a terminal as stdin, as a login does: ctrl+z needs a controlling terminal."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


class Command(subprocess.Popen[AnyStr]):
    """`subprocess.Popen` of the command `horsies` with these words."""

    program = HORSIES

    def __init__(self, words: Sequence[str | bytes | Path], **options: Any) -> None:
        self._pidfd = -1
        super().__init__([self.program, *words], **options)

    def _execute_child(self, *given: Any) -> None:
        """What `subprocess.Popen` calls when its pipes are open."""
        call = _CALL.bind(self, *given).arguments
        environ = dict(os.environ if call["env"] is None else call["env"])
        terminal = call["preexec_fn"] is take_terminal
        unknown = call["pass_fds"] or (call["preexec_fn"] and not terminal) or call["process_group"] != -1
        if unknown or not _is_like_here(environ):
            super()._execute_child(*given)
            return
        words = [os.fsdecode(word) for word in call["args"][1:]]
        request = _Request(words, environ, os.fspath(call["cwd"] or Path.cwd()), call["start_new_session"], terminal)
        pipes = [call["p2cread"], call["c2pwrite"], call["errwrite"]]
        self._server = _server("horsies_tui" if words[:1] == ["tui"] else "horsies")
        self.pid = self._server.ask(request, [number if pipe == -1 else pipe for number, pipe in enumerate(pipes)])
        self._pidfd = os.pidfd_open(self.pid)
        self._child_created = True
        self._close_pipe_fds(*(call[name] for name in _PIPES))

    def _try_wait(self, wait_flags: int) -> tuple[int, int]:
        """As `os.waitpid`: the process that has forked it reaps it when it is asked to."""
        if self._pidfd < 0:
            return super()._try_wait(wait_flags)
        waiting = select.poll()
        waiting.register(self._pidfd, select.POLLIN)
        if not waiting.poll(0 if wait_flags & os.WNOHANG else None):
            return 0, 0
        status = self._server.ask(self.pid)
        os.close(self._pidfd)
        return self.pid, status

    def _internal_poll(self, *others: Any, **named: Any) -> int | None:
        if self._pidfd < 0:
            return super()._internal_poll(*others, **named)
        if self.returncode is None and self._waitpid_lock.acquire(blocking=False):
            try:
                pid, status = self._try_wait(os.WNOHANG)
                if pid:
                    self._handle_exitstatus(status)
            finally:
                self._waitpid_lock.release()
        return self.returncode


class Program(Command[AnyStr]):
    """`subprocess.Popen` of `python -c` with this code and these arguments, for programs that import the engine."""

    program = Path(sys.executable)

    def __init__(self, code: str, *arguments: str | Path, **options: Any) -> None:
        super().__init__(["-c", code, *arguments], **options)


def run_command(words: Sequence[str | bytes | Path], **options: Any) -> subprocess.CompletedProcess[Any]:
    """`subprocess.run` of the command, with captured output."""
    answer, timeout = options.pop("input", None), options.pop("timeout", 60)
    stdin = subprocess.DEVNULL if answer is None else subprocess.PIPE
    options = {"stdin": stdin, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    with Command(words, **options) as command:
        try:
            out, err = command.communicate(answer, timeout)
        except BaseException:
            command.kill()
            raise
    return subprocess.CompletedProcess(command.args, command.returncode, out, err)


def _is_like_here(environ: Mapping[str, str]) -> bool:
    """Whether Python would start in this environment as it has started here."""
    return sys.platform == "linux" and _start(environ) == _start(os.environ)


def _start(environ: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    """What Python reads when it starts; without a locale it takes C.UTF-8."""
    given = next(filter(None, map(environ.get, ("LC_ALL", "LC_CTYPE", "LANG"))), "C")
    own = {name: environ[name] for name in environ if name.startswith("PYTHON") and name not in _TAKEN_OVER}
    return "C.UTF-8" if given in ("C", "POSIX") else given, own


class _Server:
    """The process that forks: up to two for each process of tests. It ends when this one closes the socket or dies."""

    def __init__(self, package: str) -> None:
        self._one_at_a_time = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        if directory := os.environ.get(_SHARED_VARIABLE):
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            self._socket.connect(f"{directory}/{package}")
        else:
            self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with theirs:
                self._process = _program(
                    str(theirs.fileno()), package, stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()]
                )
        atexit.register(self._end)

    def ask(self, question: _Request | int, streams: Sequence[int] = ()) -> int:
        """The id of the process that a request has started, or the exit status of the process with this id."""
        with self._one_at_a_time:
            message = pickle.dumps(tuple(question) if isinstance(question, _Request) else question)
            socket.send_fds(self._socket, [message], streams)
            return int(self._socket.recv(100))

    def _end(self) -> None:
        self._socket.close()
        if self._process is not None:
            self._process.wait()


def _program(*arguments: str, **options: Any) -> subprocess.Popen[bytes]:
    """This module as a program; with -m, as children are started: their dumps end with the frame that -m has."""
    path = os.pathsep.join(filter(None, (_HERE, os.environ.get("PYTHONPATH"))))
    command = [sys.executable, "-P", "-m", Path(__file__).stem, *arguments]
    return subprocess.Popen(command, env={**os.environ, "PYTHONPATH": path}, **options)


class SharedServers:
    """One program that imports everything once and forks a server for each process of the test run.

    With imports of their own, the servers of one process took two seconds of processor time. The processes connect to
    sockets in a directory that they know by an environment variable.
    """

    def __init__(self, parent: Path) -> None:
        """`parent`: a directory with a short path, because the path of a socket may have 107 characters."""
        self._directory = tempfile.mkdtemp(prefix="hc-forks-", dir=parent)
        listening = [_listening(f"{self._directory}/{package}") for package in _PACKAGES]
        numbers = [each.fileno() for each in listening]
        self._process = _program(_LISTEN, *map(str, numbers), stdin=subprocess.PIPE, pass_fds=numbers)
        for each in listening:
            each.close()
        os.environ[_SHARED_VARIABLE] = self._directory

    def close(self) -> None:
        del os.environ[_SHARED_VARIABLE]
        self._process.communicate()
        shutil.rmtree(self._directory)


def _listening(path: str) -> socket.socket:
    made = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    made.bind(path)
    made.listen(100)
    return made


@cache
def _server(package: str) -> _Server:
    """With or without the console: its modules are 40 MB more to fork, and no other command imports them."""
    return _Server(package)


def _serve(channel: socket.socket) -> tuple[_Request, list[int]]:
    """Fork a process for each request; in that process, return the request with its streams."""
    while True:
        message, streams, _, _ = socket.recv_fds(channel, _LARGEST, 3)
        if not message:
            os._exit(0)
        question = pickle.loads(message)
        if isinstance(question, int):
            channel.send(b"%d" % os.waitpid(question, 0)[1])
        elif pid := os.fork():
            channel.send(b"%d" % pid)
            for each in streams:
                os.close(each)
        else:
            channel.close()
            return _Request(*question), streams


def _become(request: _Request, streams: Sequence[int]) -> None:
    """All that the kernel and Python do for a program between fork and its first line."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    if request.new_session:
        os.setsid()
    if request.terminal:
        take_terminal()
    is_code = request.words[:1] == ["-c"]
    sys.path.insert(0, "" if is_code else str(HORSIES.parent))
    words = ["-c", *request.words[2:]] if is_code else [str(HORSIES), *request.words]
    _take(words, request.environ, request.directory)


def _take(words: Sequence[str], environ: Mapping[str, str], directory: str) -> None:
    """What a program gets from the one that starts it."""
    os.chdir(directory)
    os.environ.clear()
    os.environ.update(environ)
    time.tzset()
    sys.dont_write_bytecode = bool(os.environ.get("PYTHONDONTWRITEBYTECODE"))
    sys.argv = list(words)
    sys.stdin = sys.__stdin__ = _stream(sys.stdin, 0)
    sys.stdout = sys.__stdout__ = _stream(sys.stdout, 1)
    sys.stderr = sys.__stderr__ = _stream(sys.stderr, 2)


def _take_as_child(words: Sequence[str], environ: Mapping[str, str], directory: str) -> None:
    """`python -m module` and `python file.py`: the first argument is the place of the module."""
    numbers = [word for word in words if word.isdigit()]
    _take([words[-len(numbers) - 1], *numbers], environ, directory)


def _stream(like: Any, number: int) -> io.TextIOWrapper:
    """A new standard stream: a terminal's is flushed after each line, and whether it is one was known at the start."""
    raw = io.FileIO(number, "r" if number == 0 else "w", closefd=False)
    buffered = io.BufferedReader(raw) if number == 0 else io.BufferedWriter(raw)
    return io.TextIOWrapper(
        buffered,
        encoding=like.encoding,
        errors=like.errors,
        line_buffering=number == 2 or os.isatty(number),
        write_through=bool(os.environ.get("PYTHONUNBUFFERED")),
    )


def _import_all(package: str) -> None:
    """The engine, without the demo and without what only its own program imports; the console as it shows itself."""
    for module in walk_packages(import_module("horsies").__path__, "horsies."):
        if not module.name.startswith(("horsies.demo", "horsies.__main__", "horsies.testing")):
            import_module(module.name)
    for module in walk_packages(import_module(package).__path__, f"{package}."):
        if not module.name.startswith(("horsies.", "horsies_tui.shots", "horsies_tui.serving")):
            import_module(module.name)


def _main() -> NoReturn:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of ctrl+c in a test run only the tests take notice
    setproctitle.getproctitle()  # finds the place of the title by the environment that the program was started with
    if sys.argv[1] == _LISTEN:
        channel = _accept_for_all(*(socket.socket(fileno=int(number)) for number in sys.argv[2:]))
    else:
        channel = socket.socket(fileno=int(sys.argv[1]))
        _prepare(sys.argv[2])
    children = import_module("forked_children")
    sys.path.remove(_HERE)
    request, streams = _serve(channel)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # also where the test run was started with nohup
    _become(request, streams)
    if request.words[:1] == ["worker"]:
        children.fork_children(_take_as_child)
    try:
        if request.words[:1] == ["-c"]:
            exec(compile(request.words[1], "<string>", "exec"), {"__name__": "__main__"})
            sys.exit()
        import_module("horsies.cli.main").main()
    except SystemExit as end:
        _end_at_once(end.code)
        raise


def _prepare(package: str) -> None:
    _import_all(package)
    import_module("forked_children")
    _build_commands()
    gc.collect()
    gc.freeze()


def _accept_for_all(engine: socket.socket, console: socket.socket) -> socket.socket:
    """Fork a server for each connection; in that process, return the connection. Imports wait for the first one."""
    _wait_for(engine, console)
    _prepare("horsies")
    listening = engine
    if not os.fork():
        listening = console
        _wait_for(console)
        _prepare("horsies_tui")
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the servers
    while True:
        _wait_for(listening)
        channel, _ = listening.accept()
        if not os.fork():
            break
        channel.close()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    engine.close()
    console.close()
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    return channel


def _wait_for(*listening: socket.socket) -> None:
    """Until a process of tests connects; ends with the standard input, a pipe from the test run."""
    waiting = select.poll()
    for each in (0, *listening):
        waiting.register(each, select.POLLIN)
    if 0 in dict(waiting.poll()):
        os._exit(0)


def _build_commands() -> None:
    """typer reads the signatures of all commands, and of those of a group that is called, in each process: 20 ms."""
    program, typer_main = map(import_module, ("horsies.cli.main", "typer.main"))
    build = typer_main.get_command
    built = build(program.app)
    vars(typer_main)["get_command"] = lambda typed: built if typed is program.app else build(typed)
    for group in program._GROUPS.values():
        program._whole(group)


def _end_at_once(code: object) -> None:
    """All that the interpreter does when a program ends, but the memory is left to the kernel.

    To free each object takes 0.03 s of processor time, because the kernel first copies each page that is still shared.
    Returns where the interpreter has something to say.
    """
    if not (code is None or isinstance(code, int)):
        return
    threading._shutdown()
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (OSError, ValueError):
        return
    os._exit((code or 0) & 0xFF)


if __name__ == "__main__":
    _main()
