"""The real command in a terminal of a given width."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time

from forked_commands import Command

ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_PATIENCE_S = 30.0


class Terminal:
    """Starts the command at once; used with `with`, so that no process is left."""

    def __init__(self, environ: dict[str, str], *words: str, columns: int = 100) -> None:
        self.text = ""
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        self.process: Command[bytes] = Command(
            words, env=environ, stdin=slave, stdout=slave, stderr=slave, start_new_session=True
        )
        os.close(slave)

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        if self._master >= 0:
            os.close(self._master)

    def until(self, words: str) -> None:
        """Read until these words are in the output."""
        while words not in self.text:
            assert self._read(), f"it ended without {words!r}:\n{self.text}"

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def interrupt(self) -> None:
        """The signal of ctrl+c."""
        self.process.send_signal(signal.SIGINT)

    def hang_up(self) -> None:
        """What the end of an SSH session does: the terminal is gone, and the processes in it get a signal."""
        os.close(self._master)
        self._master = -1
        self.process.send_signal(signal.SIGHUP)

    def end(self) -> int:
        """The exit code, after the rest of the output."""
        while self._read():
            pass
        return self.process.wait(_PATIENCE_S)

    @property
    def lines(self) -> list[str]:
        """The output without colours."""
        return ESCAPES.sub("", self.text).splitlines()

    def _read(self) -> bool:
        deadline = time.monotonic() + _PATIENCE_S
        ready, _, _ = select.select([self._master], [], [], max(deadline - time.monotonic(), 0))
        assert ready, f"nothing more came in {_PATIENCE_S} s:\n{self.text}"
        try:
            part = os.read(self._master, 65_536)
        except OSError:  # Linux: the other end is closed
            return False
        self.text += part.decode(errors="replace").replace("\r\n", "\n")
        return bool(part)
