"""`horsies metrics` as a real process: it needs a database, and neither an application nor a worker."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess

import pytest
from cli_steps import said
from forked_commands import Command, run_command
from scraping import scrape, value


async def test_it_serves_until_sigterm_without_an_application(database: str) -> None:
    process: Command[str] = Command(
        ["metrics", "--port", "0", "--log-format", "json"],
        env={**os.environ, "HORSIES_DATABASE_URL": database},
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        url = json.loads(process.stderr.readline())["url"].removesuffix("/metrics")
        samples = await scrape(url)
        assert value(samples, "horsies_up") == 1
        assert value(samples, "horsies_workers", state="alive") == 0
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0
        assert json.loads(process.stderr.readline())["event"] == "stopping"
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("url", ["postgresql://nobody@127.0.0.1:1/none"])
def test_a_port_in_use_is_one_error_though_the_database_is_away(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setenv("HORSIES_DATABASE_URL", url)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        ended = run_command(["metrics", "--port", port], text=True)
    assert ended.returncode == 1
    assert ended.stderr.startswith(f"error[HRS-206]: cannot listen at 127.0.0.1:{port}, as --port {port} asks")


def test_two_databases_are_one_too_many() -> None:
    wrong = said("metrics", "--database-url", "postgresql://a@b/c", "--context", "prod")
    assert wrong.code == 2
    assert "name two databases" in wrong.words
