"""Messages between the worker and its children: a frame is a length and a marshalled list of messages.

marshal, not pickle or JSON: both ends are the same interpreter, the messages are tuples of plain values, and it takes
0.5 µs for a job where JSON takes 4. `Channel` is the parent's end of a socket.
"""

from __future__ import annotations

import contextlib
import marshal
import socket
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterator


CHUNK: Final = 65_536
_HEAD: Final = 4
_LARGEST: Final = (1 << 29) - 1  # four printable characters, read as a length, are more than this


class BrokenFrameError(ValueError):
    """Bytes that are no frame: another process has written to the socket."""


def pack(messages: list[Any]) -> bytes:
    """Return one frame with all these messages."""
    body = marshal.dumps(messages)
    return len(body).to_bytes(_HEAD, "little") + body


class FrameReader:
    """Assembles frames from pieces as they arrive."""

    __slots__ = ("_missing", "_rest")

    def __init__(self) -> None:
        self._rest = bytearray()
        self._missing = 0  # a frame of 16 MB comes in 256 pieces; it is parsed once, when it is complete

    def feed(self, data: bytes | bytearray) -> list[Any]:
        """Return the messages that are complete now."""
        if self._rest or len(data) < _HEAD:
            self._rest += data
            self._missing -= len(data)
            if self._missing > 0 or len(self._rest) < _HEAD:
                return []
            data, self._rest = self._rest, bytearray()
        return [message for messages in self._frames(memoryview(data)) for message in messages]

    def _frames(self, data: memoryview) -> Iterator[list[Any]]:
        """Yield the messages of each frame without a copy of its body: one of 16 MB would be four times in memory."""
        position, end = 0, len(data)
        while end - position >= _HEAD:
            length = int.from_bytes(data[position : position + _HEAD], "little")
            if length > _LARGEST:
                raise BrokenFrameError(f"a frame of {length} bytes was announced")
            begin = position + _HEAD
            if begin + length > end:
                self._missing = begin + length - end
                break
            try:
                messages = marshal.loads(data[begin : begin + length])  # noqa: S302 - from our own child
            except (EOFError, TypeError, ValueError) as error:
                raise BrokenFrameError(f"a frame cannot be read: {error}") from error
            if not isinstance(messages, list):
                raise BrokenFrameError("a frame holds no list of messages")
            yield messages
            position = begin + length
        self._rest += data[position:]


class Channel:
    """Sends messages, receives lists of messages. `on_end`: the child closed its end, or sent invalid data."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        on_messages: Callable[[list[Any]], None],
        on_end: Callable[[], None],
    ) -> None:
        self._socket, self.child_end = socket.socketpair()
        self._socket.setblocking(False)
        self._fd = self._socket.fileno()
        self._loop = loop
        self._on_messages = on_messages
        self._on_end = on_end
        self._frames = FrameReader()
        self._waiting: list[Any] = []
        self._unsent = memoryview(b"")
        self._finishing = False
        self._paused = self._ended = False
        loop.add_reader(self._fd, self._readable)

    def send(self, message: Any) -> None:
        """Send `message` together with all others of this iteration of the loop."""
        if not self._waiting:
            self._loop.call_soon(self._flush)
        self._waiting.append(message)

    def finish(self) -> None:
        """Shut down the sending side after all queued messages."""
        self._finishing = True
        self._flush()

    def pause(self) -> None:
        """Stop reading until resume(). The child waits when the socket is full; another channel reports its end."""
        if not self._ended:
            self._paused = True
            self._loop.remove_reader(self._fd)

    def resume(self) -> bool:
        """Read again; return whether reading had been paused."""
        was_paused, self._paused = self._paused, False
        if was_paused:
            self._loop.add_reader(self._fd, self._readable)
        return was_paused

    def drain(self) -> None:
        """Read everything that the child has sent, perhaps before it died."""
        with contextlib.suppress(OSError, BrokenFrameError):
            while data := self._socket.recv(CHUNK):
                self._feed(data)

    def close(self) -> None:
        self._ended, self._paused = True, False
        self._loop.remove_reader(self._fd)
        self._loop.remove_writer(self._fd)
        self._socket.close()
        self.child_end.close()

    def _readable(self) -> None:
        try:
            data = self._socket.recv(CHUNK)
            self._feed(data)
        except BlockingIOError:
            return
        except (OSError, BrokenFrameError):
            data = b""
        if not data:
            self._ended = True
            self._loop.remove_reader(self._fd)
            self._on_end()

    def _feed(self, data: bytes) -> None:
        if messages := self._frames.feed(data):
            self._on_messages(messages)

    def _flush(self) -> None:
        if self._unsent:
            return  # _write sends the rest when the socket is writable
        if self._waiting:
            self._unsent = memoryview(pack(self._waiting))
            self._waiting.clear()
            self._write()
        elif self._finishing:
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_WR)

    def _write(self) -> None:
        try:
            sent = self._socket.send(self._unsent)
        except BlockingIOError:
            sent = 0
        except OSError:
            sent = len(self._unsent)  # the child has ended; its process watcher notices that
        self._unsent = self._unsent[sent:]
        if self._unsent:
            self._loop.add_writer(self._fd, self._write)
            return
        self._loop.remove_writer(self._fd)
        if self._waiting or self._finishing:
            self._flush()
