"""The fixtures that pytest has wherever this package is installed, in projects of their own."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from pathlib import Path

import asyncpg
import pytest

from horsies.testing.embedded import SERVER_VARIABLE

SHOP = """
from horsies import AppConfig, Horsies, PostgresConfig, TaskError, TaskNode, TaskResult

app = Horsies(AppConfig(broker=PostgresConfig(database_url="postgresql://nobody@127.0.0.1:1/production")))
app.discover_tasks(["mail"])

@app.task("add")
def add(a: int, b: int) -> TaskResult[int, TaskError]:
    return TaskResult(ok=a + b)

@app.task("add_async")
async def add_async(a: int, b: int) -> TaskResult[int, TaskError]:
    return TaskResult(ok=a + b)

def sums():
    first = TaskNode(add, kwargs={"a": 1, "b": 2})
    return app.workflow("sums", [first], output=first, definition_key="shop.sums")
"""
MAIL = """
from horsies import TaskError, TaskResult
from shop import app

@app.task("greet")
def greet(name: str) -> TaskResult[str, TaskError]:
    raise LookupError(name)
"""
TESTS = """
import asyncpg, pytest
from horsies import Horsies
from horsies.testing import drain, drain_async
from shop import add, add_async, app, sums

def test_inline(horsies_app):
    assert isinstance(horsies_app, Horsies) and horsies_app is app
    assert add.send(1, 2).unwrap().get().unwrap() == 3
    assert "greet" in horsies_app.tasks

def test_a_workflow(horsies_app, horsies_queue):
    assert sums().start().unwrap().get().unwrap() == 3
    assert [task.args for task in horsies_queue.sent()] == [[]]
    assert [each.status for each in horsies_queue.started("sums")] == ["COMPLETED"]

@pytest.mark.horsies(at_once=False)
def test_later(horsies_queue):
    add.send(1, 2)
    assert horsies_queue.sent()[0].status == "PENDING"
    assert horsies_queue.run().completed == 1

@pytest.mark.horsies(raises=True)
def test_exceptions(horsies_app):
    from mail import greet
    with pytest.raises(LookupError):
        greet.send("Ada")

async def test_in_a_loop(horsies_app):
    assert (await (await add_async.send_async(1, 2)).unwrap().get_async()).unwrap() == 3

@pytest.mark.parametrize("time", [1, 2])
def test_a_database(horsies_app, horsies_db, time):
    handle = add.send(1, 2).unwrap()
    assert drain(horsies_app).completed == 1
    assert handle.get(0).unwrap() == 3

async def test_a_database_in_a_loop(horsies_db, horsies_app):
    handle = (await add_async.send_async(1, 2)).unwrap()
    assert (await drain_async(horsies_app)).completed == 1
    connection = await asyncpg.connect(horsies_db)
    assert await connection.fetchval("SELECT count(*) FROM horsies_tasks") == 1
    await connection.close()

def test_afterwards_the_application_is_as_before():
    assert app._broker is None and "production" in app.config.broker.url.secret_text
"""
MISTAKES = """
import sys, pytest

def test_what_does_not_use_it_does_not_load_it():
    assert not [name for name in sys.modules if name.startswith(("horsies.app", "pydantic", "asyncpg", "sqlalchemy"))]

def test_both(horsies_queue, horsies_db): ...
def test_no_server(horsies_db): ...

class TestOwn:
    @pytest.fixture
    def horsies_application(self):
        import shop
        return shop.app

    def test_an_application_of_a_fixture(self, horsies_app):
        from shop import add
        assert add.send(1, 2).unwrap().get().unwrap() == 3
"""


def run(directory: Path, *options: str, ini: str = "", **variables: str) -> str:
    """pytest in this project with the plugin, and without all others that happen to be installed here."""
    (directory / "pytest.ini").write_text(f"[pytest]\naddopts = --strict-markers --strict-config\n{ini}")
    command = [sys.executable, "-m", "pytest", "-p", "horsies.pytest_plugin", "-p", "no:cacheprovider", *options]
    environment = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": ""} | variables
    environment.pop("PYTEST_ADDOPTS", None)
    done = subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True, timeout=120)
    return done.stdout + done.stderr


async def left_behind(connection: asyncpg.Connection) -> list[str]:
    """The databases of tests, and the ones that they were copied from."""
    rows = await connection.fetch("SELECT datname FROM pg_database WHERE datname LIKE 'horsies_pytest_%'")
    return [name for (name,) in rows]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name, text in {"shop.py": SHOP, "mail.py": MAIL, "tests/test_shop.py": TESTS}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.mark.chaos  # three seconds of processor time; .ci/run runs it
async def test_the_fixtures_run_tasks_inline_and_on_a_database_of_each_test_in_several_processes(
    project: Path, database: str, connection: asyncpg.Connection
) -> None:
    ini = "horsies_app = shop:app\nasyncio_mode = auto\n"
    others = "-p", "pytest_asyncio.plugin", "-p", "xdist.plugin", "-n", "2"
    output = await asyncio.to_thread(run, project, *others, ini=ini, **{SERVER_VARIABLE: database})
    assert await left_behind(connection) == []
    assert re.search(r"= 9 passed in .* =", output), output


def test_each_mistake_is_answered_with_what_to_write_instead(project: Path) -> None:
    (project / "tests" / "test_shop.py").write_text(MISTAKES + "\ndef test_not_configured(horsies_app): ...\n")
    nowhere = "postgresql://nobody:secret@127.0.0.1:1/nowhere"
    output = run(project, **{SERVER_VARIABLE: nowhere})
    assert "2 passed, 3 errors" in output, output
    for words in ("a test has one of them", 'horsies_app = "shop:app"', "def horsies_application():"):
        assert words in output
    assert "pip install '.[embedded]'" in output
    assert "secret" not in output
    assert "Traceback" not in output


def test_a_name_that_leads_nowhere_is_explained(project: Path) -> None:
    (project / "tests" / "test_shop.py").write_text("def test_it(horsies_app): ...\n")
    output = run(project, ini="horsies_app = shop:application\n")
    assert "horsies_app = 'shop:application' in the configuration of pytest" in output
    assert "in shop there is app" in output
