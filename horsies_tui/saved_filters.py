"""Adds a named filter to the user's config file, and removes one, without a change to anything else in it."""

from __future__ import annotations

import fcntl
import json
import os
import re
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from horsies.domain.errors import ConfigurationError, ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tomlkit import TOMLDocument

_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,40}")
TASKS: Final = "tasks"


def is_filter_name(name: str) -> bool:
    """Return whether it needs no quotes in TOML."""
    return _NAME.fullmatch(name) is not None


def save_filter(path: Path, screen: str, name: str, text: str) -> None:
    """Add a filter; ConfigurationError if the name is taken, or if the file cannot be read or written."""
    table = table_of(screen)
    with _locked(path) as file:
        content, filters = _read(file, table)
        if (was := filters.get(name)) is not None:
            kind = "the table of another screen" if isinstance(was, dict) else f"{str(was)!r}"
            raise _error(f"there is a filter {name} already: {kind}", f"choose another name, or unsave {name} first")
        filters[name] = text
        _write(file, content, f"write {name} = {json.dumps(text, ensure_ascii=False)} below [{table}] in {path}")


def forget_filter(path: Path, screen: str, name: str) -> None:
    """Remove a filter; ConfigurationError if there is none of this name, or if the file cannot be read or written."""
    table = table_of(screen)
    with _locked(path) as file:
        content, filters = _read(file, table)
        if not isinstance(filters.get(name), str):
            raise _error(f"there is no saved filter {name} for {screen}", "`:filter` and tab lists them")
        del filters[name]
        _write(file, content, f"remove {name} from [{table}] in {path}")


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


def _read(file: Path, table: str) -> tuple[TOMLDocument, Any]:
    """Return what is in the file, and the table of this name in it, which is made if it is missing."""
    # Here, because it takes 6 ms of a start of the console, which seldom saves.
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    try:
        content = tomlkit.parse(file.read_bytes().decode())
    except FileNotFoundError:
        content = tomlkit.document()
    except (OSError, UnicodeDecodeError) as error:
        raise _error(f"cannot read {file}", "make it readable for you, as UTF-8") from error
    except TOMLKitError as error:
        raise _error(f"the config file is not valid TOML: {error}", "correct it first") from None
    here: Any = content
    for name in table.split("."):
        here = here.setdefault(name, tomlkit.table())
        if not isinstance(here, dict):
            raise _error(f"{table} in the config file is not a table", f"rename it, and write [{table}]")
    return content, here


def _write(file: Path, content: TOMLDocument, way_out: str) -> None:
    try:
        text = content.as_string().encode()
        mode = file.stat().st_mode & 0o777 if file.exists() else 0o600
        place, name = tempfile.mkstemp(prefix=f".{file.name}.", dir=file.parent)
        try:
            with os.fdopen(place, "wb") as new:
                new.write(text)
                os.fchmod(new.fileno(), mode)
            Path(name).replace(file)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except (OSError, UnicodeEncodeError) as error:
        raise _error(f"cannot write {file}: {error}", way_out) from error


def _error(message: str, help_text: str) -> ConfigurationError:
    return ConfigurationError(message, code=ErrorCode.CLI_INVALID_ARGS, help_text=help_text)
