"""The tasks of one application by name, and the modules that define them: how patterns find and import them."""

from __future__ import annotations

import difflib
import hashlib
import importlib
import importlib.util
import logging
import os
import sys
import traceback
from collections.abc import Mapping
from fnmatch import fnmatch
from glob import glob
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

from pydantic import ValidationError

from horsies.domain.errors import ConfigurationError, ErrorCode, HorsiesError, RegistryError, raising_place
from horsies.task import TaskFunction

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from types import ModuleType

    from horsies.domain.errors import SourceLocation


AnyTask = TaskFunction[..., Any, Any, Any]


class TaskNotRegisteredError(RegistryError, KeyError):
    """A name that no task of this application has; a KeyError too, so that the registry behaves like other mappings."""

    default_code = ErrorCode.TASK_NOT_REGISTERED


class TaskRegistry(Mapping[str, AnyTask]):
    """Filled by `@app.task`, and never emptied."""

    def __init__(self) -> None:
        self._tasks: dict[str, AnyTask] = {}

    def register(self, task: AnyTask) -> None:
        """Add a task. Of a module that is imported twice the first task is kept; any other duplicate is HRS-301."""
        known = self._tasks.setdefault(task.task_name, task)
        if _place(known.location) == _place(task.location):
            return
        raise RegistryError(
            f"there are two tasks named {task.task_name!r}",
            code=ErrorCode.TASK_DUPLICATE_NAME,
            location=task.location,
            notes=[f"the other one is at {known.location}"],
            help_text="give one of them another name: rows of both would run the same function",
        )

    def __getitem__(self, task_name: str) -> AnyTask:
        if (task := self._tasks.get(task_name)) is not None:
            return task
        close = difflib.get_close_matches(str(task_name), self._tasks, n=1)
        raise TaskNotRegisteredError(
            f"task {task_name!r} is not registered" + (f"; did you mean {close[0]!r}?" if close else ""),
            help_text="define it with @app.task, and list its module in app.discover_tasks([...])",
        )

    def __contains__(self, task_name: object) -> bool:
        return task_name in self._tasks

    def __iter__(self) -> Iterator[str]:
        return iter(self._tasks)

    def __len__(self) -> int:
        return len(self._tasks)


def _place(location: SourceLocation | None) -> tuple[str, int] | None:
    return None if location is None else (os.path.realpath(location.file), location.line)


NOT_TASKS: Final = ("*_test.py", "test_*.py", "conftest.py")

LOGGER: Final = logging.getLogger("horsies.registry")


def expand_module_globs(patterns: Iterable[str], exclude: Sequence[str] = NOT_TASKS) -> list[str]:
    """Return absolute paths of the matching .py files, each once; dotted names are returned unchanged.

    `exclude` is matched against the name and the whole path of each file.
    """
    found: dict[str, None] = {}
    for pattern in patterns:
        if not _is_path(pattern):
            found[pattern] = None
            continue
        for name in sorted(glob(pattern, recursive=True)):  # noqa: PTH207 - Path.glob refuses absolute patterns
            path = Path(name).resolve()
            left_out = any(fnmatch(path.name, each) or fnmatch(str(path), each) for each in exclude)
            if path.suffix == ".py" and path.is_file() and not left_out:
                found[str(path)] = None
    return list(found)


def _is_path(reference: str) -> bool:
    return reference.endswith(".py") or any(character in reference for character in "/\\*?[")


def import_reference(reference: str) -> ModuleType:
    """Return the module of a dotted name or a path of a .py file, imported once.

    ConfigurationError HRS-206 if there is none, HRS-210 if it raises; errors of its definitions as they are.
    """
    if not _is_path(reference):
        return _import(reference, reference)
    path = Path(reference).resolve()
    if not path.is_file():
        raise _not_found(f"there is no file {path}")
    return _loaded_from(path) or _import_file(path, reference)


def put_on_path(directory: Path) -> None:
    """Put `directory` first on sys.path unless it is there: modules find each other as they do under `python`."""
    if str(directory) not in sys.path:
        _trace("put %s on sys.path", directory)
        sys.path.insert(0, str(directory))


def _loaded_from(path: Path) -> ModuleType | None:
    """Return the module that was loaded from this file under any name: a second import would duplicate its classes."""
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__dict__", {}).get("__file__")
        if (
            name != "__main__"
            and isinstance(file, str)
            and Path(file).name == path.name
            and Path(file).resolve() == path
        ):
            return module
    return None


def _import_file(path: Path, reference: str) -> ModuleType:
    root, name = _dotted_name(path)
    put_on_path(path.parent)
    put_on_path(root)
    if _leads_to(name, path):
        return _import(name, reference)
    # The name belongs to another module, like `email.py` or a second `tasks.py`: use a name of its own, the same in
    # each process, because stored values name the modules of their classes.
    name = f"{path.stem}_{hashlib.sha256(str(path).encode()).hexdigest()[:8]}"
    return _import(name, reference, path)


def _dotted_name(path: Path) -> tuple[Path, str]:
    """Return the directory that has to be on sys.path, and the name from there: a.b.tasks in packages a and b."""
    root, parts = path.parent, [path.stem]
    while (root / "__init__.py").exists():
        parts.insert(0, root.name)
        root = root.parent
    return root, ".".join(parts)


def _leads_to(name: str, path: Path) -> bool:
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):  # a parent that is no package; a module without a spec, such as __main__
        return False
    return spec is not None and spec.origin is not None and Path(spec.origin).resolve() == path


def _import(name: str, reference: str, path: Path | None = None) -> ModuleType:
    _trace("importing %s as %s", reference, name)
    begin = perf_counter()
    try:
        module = importlib.import_module(name) if path is None else _execute(name, path)
    except HorsiesError:
        raise
    except ModuleNotFoundError as error:
        if error.name is not None and f"{name}.".startswith(f"{error.name}."):
            raise _not_found(f"there is no module {error.name!r}") from error
        raise _raised(reference, error) from error
    # The user's module may raise anything; sys.exit() in it must not look like a clean exit of the command.
    except (Exception, SystemExit) as error:
        raise _raised(reference, error) from error
    milliseconds = (perf_counter() - begin) * 1000
    _trace("imported %s from %s in %.0f ms", name, getattr(module, "__file__", None), milliseconds)
    return module


def _trace(message: str, *arguments: object) -> None:
    """Log an import with HORSIES_DEBUG_IMPORTS=1, whatever the log level is."""
    if os.environ.get("HORSIES_DEBUG_IMPORTS") == "1":
        LOGGER.setLevel(logging.DEBUG)
    LOGGER.debug(message, *arguments)


def _execute(name: str, path: Path) -> ModuleType:
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None, "a .py file has one"
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _not_found(message: str) -> ConfigurationError:
    return ConfigurationError(
        message,
        code=ErrorCode.CLI_INVALID_ARGS,
        notes=[f"the working directory is {Path.cwd()}"],
        help_text="run the command in the project's directory, or write the path of the file: directory/file.py",
    )


def _raised(reference: str, error: BaseException) -> ConfigurationError:
    kind = type(error).__name__
    text = str(traceback.TracebackException(type(error), error, None))
    return ConfigurationError(
        f"importing {reference} raised {kind}: {text}" if text else f"importing {reference} raised {kind}",
        code=ErrorCode.MODULE_EXEC_ERROR,
        location=raising_place(error),
        help_text=_way_out(error, reference),
    )


def _way_out(error: BaseException, reference: str) -> str:
    """Return the help for a broken rule of ours; of other errors only the module's author knows the cause."""
    if isinstance(error, SystemExit):
        return 'a module must import without side effects: put what a program does under if __name__ == "__main__":'
    if not isinstance(error, ValidationError):
        alone = f"python {reference}" if _is_path(reference) else f"python -c 'import {reference}'"
        return f"correct the module; `{alone}` shows where it fails"
    lines = error.errors(include_url=False, include_input=False, include_context=False)
    missing = [str(line["loc"][0]) for line in lines if line["type"] == "missing" and line["loc"]]
    if missing:
        return f"give it what it lacks: {error.title}({', '.join(f'{name}=...' for name in missing)})"
    return f"correct what {error.title} is given there"
