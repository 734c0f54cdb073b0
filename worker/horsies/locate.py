"""Finds the application that a command line names: `pkg.mod:app`, `pkg.mod`, `dir/file.py:app` or `dir/file.py`."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from horsies import app_checks
from horsies.app import Horsies
from horsies.domain.errors import (
    ConfigurationError,
    ErrorCode,
    HorsiesError,
    MultipleValidationErrors,
    ValidationReport,
    flatten,
)
from horsies.registry import import_reference, put_on_path
from horsies.task import sends_suppressed

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

_PROJECT_FILES: Final = ("pyproject.toml", "setup.cfg", "setup.py")
_DOTTED: Final = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")
_FORMS: Final = "write package.module:app, package.module, directory/file.py:app or directory/file.py"


def locate_app(locator: str) -> Horsies:
    """Import the module that `locator` names, with sends suppressed, and return its application.

    The task modules that the application discovers are not imported: call `app.import_task_modules()`.
    ConfigurationError HRS-206 or HRS-207 if nothing is found, HRS-210 for a module that raises.
    """
    return _locate(locator)[0]


def checked_app(
    locator: str, *, live: bool = False, located: Callable[[Horsies], object] | None = None
) -> tuple[Horsies, list[str]]:
    """Return the application with its task modules imported, and the workflows that could not be built without a run.

    MultipleValidationErrors with the report of `horsies check` if a worker or a scheduler cannot run it. `located` is
    called with the application before it is checked.
    """
    try:
        app, module = _locate(locator)
        if located is not None:
            located(app)
        found = app_checks.checked(app, live=live, located_in=module)
    except HorsiesError as error:
        found = app_checks.Checked([error])
    if found.errors:
        raise MultipleValidationErrors(ValidationReport(tuple(flatten(found.errors))))
    return app, found.unbuilt


def _locate(locator: str) -> tuple[Horsies, ModuleType]:
    reference, attribute = _take_apart(locator)
    _put_working_directory_on_path()
    with sends_suppressed():
        module = import_reference(reference)
    app = _only_app(module, reference) if attribute is None else _named_app(module, reference, attribute)
    return app, module


def _take_apart(locator: str) -> tuple[str, str | None]:
    """`dir/file.py:app` -> ("dir/file.py", "app"); no attribute -> None."""
    reference, colon, attribute = locator.strip().partition(":")
    if not reference:
        raise ConfigurationError(f"{locator!r} names no module", code=ErrorCode.CLI_INVALID_ARGS, help_text=_FORMS)
    if colon and not attribute.isidentifier():
        raise _malformed(f"{attribute!r} in {locator!r} is not the name of a variable", _FORMS)
    if reference.endswith(".py"):
        _refuse_dotted_file(reference, colon + attribute)
    elif os.sep in reference:
        raise _malformed(f"{reference!r} is a path, but not one of a .py file", _FORMS)
    elif not _DOTTED.fullmatch(reference):
        raise _malformed(f"{reference!r} is not the name of a module", _FORMS)
    return reference, attribute or None


def _refuse_dotted_file(reference: str, rest: str) -> None:
    name = reference.removesuffix(".py")
    if "." in name and os.sep not in name and not Path(reference).exists():
        path = name.replace(".", "/")
        raise _malformed(
            f"{reference!r} mixes a module name with a file name",
            f"write {name}{rest} for the module, or {path}.py{rest} for the file",
        )


def _put_working_directory_on_path() -> None:
    """Put a project's directory first, as if it were installed; any other last, where it cannot hide other modules."""
    here = Path.cwd()
    if any((here / name).exists() for name in _PROJECT_FILES):
        put_on_path(here)
    elif str(here) not in sys.path:
        sys.path.append(str(here))


def _only_app(module: ModuleType, reference: str) -> Horsies:
    names_by_app: dict[Horsies, str] = {}
    for name, value in vars(module).items():
        if isinstance(value, Horsies):
            names_by_app.setdefault(value, name)
    if len(names_by_app) == 1:
        return next(iter(names_by_app))
    found = ", ".join(sorted(names_by_app.values()))
    raise ConfigurationError(
        f"module {reference!r} contains several applications: {found}"
        if found
        else f"{reference!r} contains no application",
        code=ErrorCode.CLI_INVALID_ARGS,
        help_text=f"say which one: {reference}:{min(names_by_app.values())}"
        if found
        else "define one in it: app = Horsies(AppConfig(...)), or name the module that does",
    )


def _named_app(module: ModuleType, reference: str, attribute: str) -> Horsies:
    value = vars(module).get(attribute)
    if isinstance(value, Horsies):
        return value
    others = sorted(name for name, other in vars(module).items() if isinstance(other, Horsies))
    way_out = (
        f"in {reference} there is {', '.join(others)}" if others else f"define {attribute} = Horsies(AppConfig(...))"
    )
    what = f"is {type(value).__name__}, not a Horsies application" if attribute in vars(module) else "does not exist"
    raise _malformed(f"{attribute!r} in module {reference!r} {what}", way_out)


def _malformed(message: str, help_text: str) -> ConfigurationError:
    return ConfigurationError(message, code=ErrorCode.WORKER_INVALID_LOCATOR, help_text=help_text)
