"""The one place where tests replace a part of an application: its broker."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from horsies.app import Horsies
    from horsies.broker import PostgresBroker


@contextmanager
def broker_replaced(app: Horsies, broker: PostgresBroker | None) -> Iterator[None]:
    """Inside this block `app` uses this broker; None: a new one made from its configuration."""
    before, app._broker = app._broker, broker  # noqa: SLF001 - no application needs this outside of tests
    try:
        yield
    finally:
        inside, app._broker = app._broker, before  # noqa: SLF001
        if inside is not None:
            inside.close()


@contextmanager
def database_replaced(app: Horsies, url: str) -> Iterator[None]:
    """Inside this block `app` uses the database at `url`."""
    config = app.config
    app.config = config.model_copy(update={"broker": config.broker.model_copy(update={"database_url": url})})
    try:
        with broker_replaced(app, None):
            yield
    finally:
        app.config = config
