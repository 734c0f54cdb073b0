"""`app.check()`: one phase after the other, all errors of a phase together, and no task is sent meanwhile."""

from __future__ import annotations

from pathlib import Path

import pytest
from task_apps import make_app

from horsies import ErrorCode, MultipleValidationErrors, TaskError, TaskResult


def good() -> TaskResult[int, TaskError]:
    return TaskResult(ok=1)


def no_type() -> TaskResult[5, TaskError]:  # type: ignore[valid-type]
    raise NotImplementedError


def test_a_sound_application_has_no_errors() -> None:
    app = make_app()
    app.task("good", good, exception_mapper={OSError: "DISK"}, default_unhandled_error_code="UNHANDLED_EXCEPTION")
    assert app.check() == []


def test_codes_that_are_ours_already_are_refused_wherever_they_stand() -> None:
    app = make_app(exception_mapper={OSError: "BROKER_ERROR"}, default_unhandled_error_code="TASK_EXPIRED")
    app.task("good", good, exception_mapper={OSError: "WORKER_CRASHED"}, default_unhandled_error_code="TASK_EXCEPTION")
    errors = app.check()
    assert {error.code for error in errors} == {ErrorCode.CHECK_RESERVED_CODE_COLLISION}
    assert [error.message for error in errors] == [
        "exception_mapper of AppConfig turns OSError into the built-in code BROKER_ERROR",
        "default_unhandled_error_code of AppConfig is the built-in code TASK_EXPIRED",
        "exception_mapper of task 'good' turns OSError into the built-in code WORKER_CRASHED",
        "default_unhandled_error_code of task 'good' is the built-in code TASK_EXCEPTION",
    ]
    assert errors[-1].location is not None
    assert errors[-1].location.line == good.__code__.co_firstlineno


def test_a_return_type_that_is_no_type_is_found() -> None:
    app = make_app()
    app.task("odd", no_type)
    (error,) = app.check()
    assert error.code is ErrorCode.TASK_INVALID_RETURN_TYPE
    assert "5 is not a Python type" in error.message


def write(directory: Path, **sources: str) -> list[str]:
    for name, source in sources.items():
        (directory / f"{name}.py").write_text(source)
    return [str(directory / f"{name}.py") for name in sources]


def test_every_module_that_cannot_be_imported_is_reported_and_ends_the_check(project: Path) -> None:
    app = make_app(default_unhandled_error_code="TASK_EXPIRED")
    app.discover_tasks(
        [
            *write(
                project,
                check_raises="import os\n1 / 0",
                check_syntax="def broken(:",
                check_exits="import sys; sys.exit(3)",
                check_missing="import no_such_package",
            ),
            "no_such_package.tasks",
            str(project / "nowhere.py"),
        ]
    )
    errors = app.check(live=True)
    assert [error.code for error in errors] == [ErrorCode.MODULE_EXEC_ERROR] * 4 + [ErrorCode.CLI_INVALID_ARGS] * 2
    texts = [error.message for error in errors]
    assert "ZeroDivisionError: division by zero" in texts[0]
    assert "SyntaxError" in texts[1]
    assert "SystemExit: 3" in texts[2]
    assert "No module named 'no_such_package'" in texts[3]
    assert texts[4] == "there is no module 'no_such_package'"
    assert [(Path(e.location.file).name, e.location.line) for e in errors if e.location] == [
        ("check_raises.py", 2),
        ("check_syntax.py", 1),
        ("check_exits.py", 1),
        ("check_missing.py", 1),
    ]


def test_a_database_that_cannot_be_reached_is_an_error_of_the_live_check_only() -> None:
    app = make_app()
    assert app.check() == []
    (error,) = app.check(live=True)
    assert error.code is ErrorCode.BROKER_INVALID_URL
    assert "cannot connect to localhost:1" in error.message


async def test_a_live_check_works_inside_an_event_loop() -> None:
    (error,) = make_app().check(live=True)
    assert "cannot connect" in error.message


async def test_a_worker_inside_another_program_begins_with_the_check_too() -> None:
    """It raises before it connects: nothing answers there, and it would wait for the database."""
    app = make_app(default_unhandled_error_code="TASK_EXPIRED")
    with pytest.raises(MultipleValidationErrors) as caught:
        async with app.run_worker(locator="nowhere:app"):
            raise NotImplementedError
    assert [error.code for error in caught.value.report.errors] == [ErrorCode.CHECK_RESERVED_CODE_COLLISION]
