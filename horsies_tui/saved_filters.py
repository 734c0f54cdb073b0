"""Adds a named filter to the user's config file, and removes one, without a change to anything else in it."""

from __future__ import annotations

import fcntl
import json
import os
import re
import tempfile
import tomllib
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from horsies.domain.errors import ConfigurationError, ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,40}")
_HEADER: Final = re.compile(r"\s*\[")
TASKS: Final = "tasks"


def is_filter_name(name: str) -> bool:
    """Return whether it needs no quotes in TOML."""
    return _NAME.fullmatch(name) is not None


def save_filter(path: Path, screen: str, name: str, text: str) -> None:
    """ConfigurationError if the name is taken, or if the file cannot be changed without touching something else."""
    table = table_of(screen)
    line = f"{name} = {json.dumps(text, ensure_ascii=False)}"
    with _locked(path) as file:
        before = _read(file)
        filters = _filters(before, table)
        if name in filters:
            was = filters[name]
            kind = "the table of another screen" if isinstance(was, dict) else f"{was!r}"
            raise _error(f"there is a filter {name} already: {kind}", f"choose another name, or unsave {name} first")
        filters[name] = text
        after = _with_line(before.splitlines(keepends=True), table, line)
        _replace(file, after, filters, table, f"write {line} below [{table}] in {path}")


def forget_filter(path: Path, screen: str, name: str) -> None:
    """ConfigurationError if there is none of this name, or if its line cannot be found."""
    table = table_of(screen)
    with _locked(path) as file:
        before = _read(file)
        filters = _filters(before, table)
        if not isinstance(filters.pop(name, None), str):
            raise _error(f"there is no saved filter {name} for {screen}", "`:filter` and tab lists them")
        lines = before.splitlines(keepends=True)
        header = _place(lines, table)
        begins = re.compile(rf"\s*[\"']?{re.escape(name)}[\"']?\s*=")
        end = _end(lines, header)
        found = next((at for at in range((header or 0) + 1, end) if begins.match(lines[at])), None)
        if header is None or found is None:
            raise _error(f"{path} has {name} in a form that is not changed here", f"remove it from [{table}] there")
        after = "".join(lines[:found] + lines[found + 1 :])
        _replace(file, after, filters, table, f"remove {name} from [{table}] in {path}")


def table_of(screen: str) -> str:
    """The table of the config file with the filters of a screen; those of tasks are in `[filters]` itself."""
    return "filters" if screen == TASKS else f"filters.{screen}"


@contextmanager
def _locked(path: Path) -> Iterator[Path]:
    """The file itself, also behind a link. Two consoles that save at once take turns."""
    file = path.resolve()
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        directory = os.open(file.parent, os.O_RDONLY)
    except OSError as error:
        raise _error(f"cannot write {path}: {os.strerror(error.errno or 0)}", "make it writable for you") from error
    try:
        fcntl.flock(directory, fcntl.LOCK_EX)
        yield file
    finally:
        os.close(directory)


def _read(file: Path) -> str:
    try:
        return file.read_bytes().decode()
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        raise _error(f"cannot read {file}", "make it readable for you, as UTF-8") from error


def _filters(text: str, table: str) -> dict[str, Any]:
    try:
        content: Any = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _error(f"the config file is not valid TOML: {error}", "correct it first") from None
    for name in table.split("."):
        content = content.get(name, {}) if isinstance(content, dict) else {}
    return dict(content) if isinstance(content, dict) else {}


def _with_line(lines: Sequence[str], table: str, line: str) -> str:
    """Below the last line of the table; in a file without the table, at its end with a new header."""
    header = _place(lines, table)
    if header is None:
        text = "".join(lines)
        gap = "" if not text else "\n" if text.endswith("\n") else "\n\n"
        return f"{text}{gap}[{table}]\n{line}\n"
    end = _end(lines, header)
    while not lines[end - 1].strip():
        end -= 1
    above = "".join(lines[:end])
    return f"{above}{'' if above.endswith(chr(10)) else chr(10)}{line}\n{''.join(lines[end:])}"


def _place(lines: Sequence[str], table: str) -> int | None:
    dotted = table.replace(".", r"\s*\.\s*")
    header = re.compile(rf"\s*\[\s*{dotted}\s*\]\s*(#.*)?$")
    return next((at for at, line in enumerate(lines) if header.match(line)), None)


def _end(lines: Sequence[str], header: int | None) -> int:
    start = 0 if header is None else header + 1
    return next((at for at in range(start, len(lines)) if _HEADER.match(lines[at])), len(lines))


def _replace(file: Path, text: str, filters: dict[str, Any], table: str, way_out: str) -> None:
    """Only if the new text says the same as the old one in all else, which a text that looks like a table may not."""
    try:
        same = _wanted(_read(file), table, filters) == tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        same = False
    if not same:
        raise _error(f"{file} is written in a form that is not changed here", way_out)
    try:
        mode = file.stat().st_mode & 0o777 if file.exists() else 0o600
        place, name = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.parent)
        try:
            with os.fdopen(place, "wb") as new:
                new.write(text.encode())
                os.fchmod(new.fileno(), mode)
            Path(name).replace(file)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except (OSError, UnicodeEncodeError) as error:
        raise _error(f"cannot write {file}: {error}", way_out) from error


def _wanted(before: str, table: str, filters: dict[str, Any]) -> dict[str, Any]:
    content = tomllib.loads(before)
    here: dict[str, Any] = content
    *parents, last = table.split(".")
    for name in parents:
        here = here.setdefault(name, {})
    here[last] = filters
    return content


def _error(message: str, help_text: str) -> ConfigurationError:
    return ConfigurationError(message, code=ErrorCode.CLI_INVALID_ARGS, help_text=help_text)
