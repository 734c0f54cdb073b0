"""What a web application asks by an id alone, and what it makes of the application's database."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from task_apps import make_app

from horsies import AppConfig, Horsies, MapNode, PostgresConfig, TaskError, TaskResult
from horsies.testing import inline

KEYS = [UUID(int=1), UUID(int=2)]


def named(key: UUID) -> TaskResult[UUID, TaskError]:
    return TaskResult(ok=key)


def test_a_handle_made_of_an_id_gives_a_value_of_the_declared_type() -> None:
    app = make_app()
    task: Any = app.task("named", named)
    with inline(app) as queue:
        sent = task.send_or_raise(KEYS[0])
        assert task.handle(sent.task_id).get().unwrap() == KEYS[0]
        assert queue.sent(task)[0].args == [KEYS[0]]


def test_values_of_a_map_have_the_declared_type() -> None:
    app = make_app()
    each = MapNode(app.task("named", named), KEYS, node_id="each")
    with inline(app):
        handle = app.workflow("flow", [each], output=each, definition_key="flow").start().unwrap()
        assert handle.get().unwrap() == handle.result_for(each).unwrap() == KEYS


@pytest.mark.parametrize("scheme", ["postgresql", "postgresql+psycopg"])
def test_the_url_for_other_libraries_names_their_driver(scheme: str) -> None:
    app = Horsies(AppConfig(broker=PostgresConfig(database_url=f"{scheme}://u:p@db:5432/shop")))
    assert app.database_url() == "postgresql://u:p@db:5432/shop"
    assert app.database_url("asyncpg") == "postgresql+asyncpg://u:p@db:5432/shop"


def test_the_place_of_an_error_of_an_import_is_the_users_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`os.environ` is frozen into the interpreter, and has no file below the installation."""
    (tmp_path / "needs_a_url.py").write_text('import os\n\nURL = os.environ["NO_SUCH_URL"]\n')
    monkeypatch.syspath_prepend(tmp_path)
    (error,) = _imported("needs_a_url")
    assert error.location is not None
    assert (error.location.file, error.location.line) == (str(tmp_path / "needs_a_url.py"), 3)
    assert error.help_text == "correct the module; `python -c 'import needs_a_url'` shows where it fails"


def _imported(module: str) -> list[Any]:
    app = make_app()
    app.discover_tasks([module])
    return app.check()
