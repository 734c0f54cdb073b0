"""The application for the fixtures of horsies.testing, as docs/testing.md has it."""

import pytest

from horsies import Horsies


@pytest.fixture(scope="session")
def horsies_application() -> Horsies:
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("HORSIES_DATABASE_URL", "postgresql://nobody@localhost:1/none")
        from bookshop.jobs import app

        app.import_task_modules()
    return app
