"""`horsies new`: what it makes passes its own test and its check, is run by a worker, and nothing is overwritten."""

from __future__ import annotations

import configparser
import json
import os
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import PathDistribution, distribution
from pathlib import Path
from typing import Any

import asyncpg
import pytest
import typer
import yaml
from cli_steps import said
from forked_commands import run_command
from test_worker import Table, Worker

import horsies
from horsies.cli.main import app
from horsies.cli.new import FILES, _requirement

COMMANDS: Any = typer.main.get_command(app)


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `horsies new shop` makes."""
    directory = tmp_path_factory.mktemp("new")
    made = run_command(["new", "shop"], cwd=directory, text=True)
    assert made.returncode == 0, made.stderr
    assert "horsies worker shop:app --reload" in made.stdout
    return directory / "shop"


def require_options(words: list[str]) -> dict[str, Any]:
    """What such a command line means; click refuses options that do not exist."""
    command = COMMANDS.commands[words[1]]
    given: dict[str, Any] = command.make_context(words[1], words[2:]).params
    return given


def test_it_makes_each_file_and_leaves_no_placeholder(shop: Path) -> None:
    assert {path.name for path in shop.iterdir()} == {name.replace("NAME", "shop") for name in FILES}
    for path in shop.iterdir():
        assert "NAME" not in path.read_text().replace("POSTGRES_DB", ""), path
        assert "REQUIREMENT" not in path.read_text(), path


def test_it_needs_horsies_from_where_this_one_was_installed(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """pip finds nothing under its name, and under `horsies` the work of others."""
    project = tomllib.loads((shop / "pyproject.toml").read_text())["project"]
    here = json.loads(distribution("horsies-console").read_text("direct_url.json") or "")["url"]
    assert project["dependencies"] == [f"horsies-console @ {here}"]
    assert project["optional-dependencies"]["dev"] == [f"horsies-console[embedded] @ {here}", "pytest>=8"]
    origin = {"url": "https://git.example/h.git", "vcs_info": {"vcs": "git", "commit_id": "0f1e"}}
    monkeypatch.setattr(PathDistribution, "read_text", lambda *_: json.dumps(origin))
    assert _requirement("[embedded]") == "horsies-console[embedded] @ git+https://git.example/h.git@0f1e"
    monkeypatch.setattr(PathDistribution, "read_text", lambda *_: None)
    assert _requirement() == f"horsies-console>={horsies.__version__}"


@pytest.mark.chaos  # a second of processor time; .ci/run runs it
def test_its_own_test_and_its_check_pass_and_ruff_finds_nothing(shop: Path, tmp_path: Path) -> None:
    here = {**os.environ, "HORSIES_DATABASE_URL": ""}
    options = ["-q", "-p", "no:cacheprovider", "-p", "no:asyncio", "-p", "no:xdist"]
    tested = subprocess.run(
        [sys.executable, "-B", "-m", "pytest", *options], cwd=shop, env=here, capture_output=True, text=True
    )
    assert "2 passed" in tested.stdout, tested.stdout + tested.stderr
    checked = run_command(["check", "shop:app"], cwd=shop, env=here, text=True)
    assert (checked.returncode, "1 task(s) registered" in checked.stdout) == (0, True)
    ruff = Path(sys.executable).with_name("ruff")
    linted = subprocess.run([ruff, "check", "--no-cache", "."], cwd=shop, capture_output=True, text=True)
    assert linted.returncode == 0, linted.stdout
    project = tomllib.loads((shop / "pyproject.toml").read_text())
    assert (project["project"]["name"], project["tool"]["setuptools"]["py-modules"]) == ("shop", ["shop"])


@pytest.fixture
def unit(shop: Path) -> configparser.ConfigParser:
    parser = configparser.ConfigParser(interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read(shop / "shop-worker.service")
    return parser


@pytest.fixture
def compose(shop: Path) -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load((shop / "compose.yaml").read_text())
    return content


@pytest.fixture
def worker(shop: Path, unit: configparser.ConfigParser, database: str) -> Iterator[Worker]:
    """The worker of the systemd unit."""
    words = shlex.split(unit["Service"]["ExecStart"])
    assert words[:3] == ["/srv/shop/.venv/bin/horsies", "worker", "shop:app"]
    options = [word for word in words[3:] if word not in ("--processes", "2", "--log-format", "json")]
    worker = Worker(*options, app=f"{shop}/shop.py:app", HORSIES_DATABASE_URL=database)
    yield worker
    worker.kill()


async def test_the_worker_of_its_unit_runs_its_task(
    worker: Worker, table: Table, connection: asyncpg.Connection
) -> None:
    worker.wait_for("ready")
    row = await table.done(await table.send("greet", "you"))
    assert (row["status"], json.loads(row["result"])["ok"]) == ("COMPLETED", "hello you")
    assert await connection.fetchval("SELECT schedule_name FROM horsies_schedule_state") == "every hour"
    assert worker.stop() == 0


def test_the_unit_waits_longer_than_its_worker(unit: configparser.ConfigParser) -> None:
    service = unit["Service"]
    given = require_options(shlex.split(service["ExecStart"]))
    assert int(service["TimeoutStopSec"]) >= given["shutdown_grace"] + 5
    assert (service["KillMode"], given["with_scheduler"]) == ("mixed", True)


def test_the_compose_file_has_a_worker_a_scheduler_and_a_database(compose: dict[str, Any]) -> None:
    services = compose["services"]
    assert set(services) == {"postgres", "scheduler", "worker"}
    worker = services["worker"]
    given = require_options(worker["command"])
    assert int(worker["stop_grace_period"].removesuffix("s")) >= given["shutdown_grace"] + 5
    assert f":{given['metrics_port']}/healthz" in worker["healthcheck"]["test"][3]
    compile(worker["healthcheck"]["test"][3], "healthcheck", "exec")
    require_options(services["scheduler"]["command"])
    for service in (worker, services["scheduler"]):
        assert service["depends_on"] == {"postgres": {"condition": "service_healthy"}}
        assert service["environment"]["HORSIES_MODULE"] == "shop:app"
    url, postgres = worker["environment"]["HORSIES_DATABASE_URL"], services["postgres"]["environment"]
    assert url == "postgresql://{POSTGRES_USER}:{POSTGRES_PASSWORD}@postgres:5432/{POSTGRES_DB}".format(**postgres)


def test_the_commands_of_its_readme_and_its_dockerfile_exist(shop: Path) -> None:
    readme = (shop / "README.md").read_text()
    for line in readme.splitlines():
        if line.startswith(".venv/bin/horsies"):
            require_options(shlex.split(line))
    assert readme.count(".venv/bin/horsies") == 2
    docker = (shop / "Dockerfile").read_text().splitlines()
    assert require_options(json.loads(docker[-1].removeprefix("CMD ")))["module"] == "shop:app"
    assert all((shop / name).exists() for name in docker[2].split()[1:-1])


def test_a_name_that_would_not_work_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for names, says in (
        (("Shop", "web-shop", "../shop"), "cannot be the name of a module"),
        (("class", "match"), "is a keyword of Python"),
        (("email", "typer", "test_shop"), "is the name of another module"),
    ):
        for name in names:
            answer = said("new", name)
            assert (answer.code, says in answer.words) == (1, True), answer.words
    assert list(tmp_path.iterdir()) == []


def test_nothing_is_overwritten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "kiosk").mkdir()
    (tmp_path / "kiosk" / "kiosk.py").write_text("mine = 1\n")
    answer = said("new", "kiosk")
    assert (answer.code, "is not empty" in answer.words) == (1, True)
    assert [path.name for path in (tmp_path / "kiosk").iterdir()] == ["kiosk.py"]
    (tmp_path / "bakery").write_text("a file\n")
    assert "cannot make" in said("new", "bakery").words
