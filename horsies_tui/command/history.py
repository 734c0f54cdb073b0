"""The history of typed commands, kept in a file, without reasons, values and passwords."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from horsies.domain.masking import mask

if TYPE_CHECKING:
    from pathlib import Path

MOST: Final = 200
_LONGEST: Final = 1_000
"""Maximum length of a line; longer lines are not kept."""


class CommandHistory:
    """The history, newest first. Consoles share the file: each appends whole lines. Without a file it is in memory
    only.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._read = False
        self._lines: list[str] = []

    @property
    def lines(self) -> list[str]:
        if not self._read:
            self._read = True
            self._lines = self._load()
        return self._lines

    def remember(self, text: str) -> str | None:
        """Keep this line in memory; return the text that `append` must write in a thread, or None."""
        from horsies_tui.command.grammar import without_secrets

        kept = mask(without_secrets(text))
        if not kept or len(kept) > _LONGEST or not kept.isprintable():
            return None
        before = self.lines
        self._lines = [kept, *(line for line in before if line != kept)][:MOST]
        return kept if before[:1] != [kept] else None

    def _load(self) -> list[str]:
        """Read the file. An unreadable file counts as empty, because a history is not worth an error."""
        if self._path is None:
            return []
        try:
            lines = self._path.read_text("utf-8", errors="replace").splitlines()
        except OSError:
            return []
        if len(lines) > 2 * MOST:
            self._shorten(lines[-MOST:])
        return [*dict.fromkeys(line for line in reversed(lines) if line.strip())][:MOST]

    def append(self, line: str) -> None:
        """Write a line to the file, which may be on a file system that does not answer."""
        if self._path is None:
            return
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            place = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            with os.fdopen(place, "ab") as file:
                file.write(f"{line}\n".encode(errors="replace"))
        except OSError:
            self._path = None

    def _shorten(self, lines: list[str]) -> None:
        assert self._path is not None
        new = self._path.with_name(f"{self._path.name}.{os.getpid()}")
        try:
            with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
                file.write("\n".join([*lines, ""]))
            new.replace(self._path)
        except OSError:
            new.unlink(missing_ok=True)
