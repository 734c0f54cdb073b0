"""pytest fixtures: `pytest_plugins = ["horsies.testing.fixtures"]` in conftest.py, or import the ones you want.

A fixture for one application is three lines of your own:

    @pytest.fixture
    def database():
        with embedded_database(app) as url:
            yield url
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from horsies.testing.embedded import embedded_database

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def horsies_database() -> Iterator[str]:
    """The URL of a fresh PostgreSQL database with the schema of horsies."""
    with embedded_database() as url:
        yield url
