"""The URL by which other libraries reach the embedded server of an application."""

from __future__ import annotations

from pathlib import Path

import psycopg

from horsies import AppConfig, Horsies, PostgresConfig
from horsies.store.embedded import EmbeddedServer


def test_the_server_runs_and_is_held_once(embedded_server: EmbeddedServer) -> None:
    directory: Path = embedded_server.place.root
    app = Horsies(AppConfig(broker=PostgresConfig(database_url=f"embedded://{directory}")))
    assert app.database_url() == app.database_url() == embedded_server.url
    with psycopg.connect(app.database_url()) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)
    assert app._embedded is not None
    app._embedded.release()  # as the end of the process does: the server of the tests must stop
