"""The registry of tasks: one task per name, refusals, and the error for unknown names."""

from __future__ import annotations

import types
from pathlib import Path
from typing import Any

import pytest
from task_apps import make_app

from horsies import ErrorCode, Horsies, TaskError, TaskResult
from horsies.domain.errors import RegistryError


def report(day: int) -> TaskResult[int, TaskError]:
    return TaskResult(ok=day)


def other(day: int) -> TaskResult[int, TaskError]:
    return TaskResult(ok=-day)


def test_an_unknown_name_is_a_registry_error_and_a_key_error() -> None:
    app = make_app()
    app.task("send_report", report)
    with pytest.raises(KeyError) as caught:
        app.tasks["send_raport"]
    assert isinstance(caught.value, RegistryError)
    assert caught.value.code is ErrorCode.TASK_NOT_REGISTERED
    assert "task 'send_raport' is not registered; did you mean 'send_report'?" in str(caught.value)


def test_the_registry_is_a_mapping() -> None:
    app = make_app()
    first, second = app.task("one", report), app.task("two", other)
    assert dict(app.tasks) == {"one": first, "two": second}
    assert len(app.tasks) == 2
    assert "one" in app.tasks
    assert "three" not in app.tasks
    assert app.tasks.get("three") is None


def test_the_same_name_in_another_place_is_refused_and_both_places_are_named() -> None:
    app = make_app()
    first = app.task("send_report", report)
    with pytest.raises(RegistryError, match="two tasks named 'send_report'") as caught:
        app.task("send_report", other)
    assert caught.value.code is ErrorCode.TASK_DUPLICATE_NAME
    assert caught.value.location is not None
    assert caught.value.location.line == other.__code__.co_firstlineno
    assert f"{__file__}:{report.__code__.co_firstlineno}" in caught.value.notes[0]
    assert app.tasks["send_report"] is first


MODULE = """
from __future__ import annotations
from horsies import TaskError, TaskResult

def define(app):
    @app.task("twice")
    def twice() -> TaskResult[int, TaskError]:
        return TaskResult(ok=2)
    return twice
"""


def load(path: Path) -> Any:
    module = types.ModuleType(path.stem)
    exec(compile(path.read_text(), str(path), "exec"), vars(module))
    return module


def test_a_module_that_is_imported_twice_keeps_its_first_task(tmp_path: Path) -> None:
    path = tmp_path / "tasks.py"
    path.write_text(MODULE)
    app: Horsies = make_app()
    first, again = load(path).define(app), load(path).define(app)
    assert app.tasks["twice"] is first
    assert again().ok_value == 2


def test_the_same_file_by_another_path_is_the_same_place(tmp_path: Path) -> None:
    path, link = tmp_path / "tasks.py", tmp_path / "link.py"
    path.write_text(MODULE)
    link.symlink_to(path)
    app = make_app()
    first = load(path).define(app)
    load(link).define(app)
    assert app.tasks["twice"] is first
