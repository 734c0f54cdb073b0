"""The Python of README.md and docs/, as it is written there: one project, checked, run by a worker, and used."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import asyncpg
import psycopg
import pytest
from cli_steps import horsies
from database_server import DatabaseServer
from doc_pages import BLOCKS, MODULES, Block, commands
from forked_commands import Command
from schedule_scene import add_schedule, definition

URL = re.compile(r"(postgresql|embedded)(\+\w+)?://[^\"'\s…)]*")
USES = [block for block in BLOCKS if block.language == "python" and not block.module]
PRINTS = re.compile(r"^ *print\(.*\)  # (.+)$", re.MULTILINE)
PLACES = [name.removesuffix(".py") for name, block in MODULES.items() if "INSERT INTO orders" in block.text]
"""Modules that store an order and send its task in one transaction."""
FIRST_ORDER = 900_000
LOOKS = re.compile(r"(ls|show|status|stats|next|graph|doctor|check)$")

RUN = """
import io, json, sys
from contextlib import redirect_stdout

import django
from django.conf import settings
settings.configure(DATABASES={"default": json.loads(sys.argv[1])}, USE_TZ=True)
django.setup()
for block in json.load(sys.stdin):
    out = io.StringIO()
    with redirect_stdout(out):
        exec(compile(block["text"], block["place"], "exec"), {"__name__": "__main__"})
    print(json.dumps(out.getvalue().splitlines()), flush=True)
"""
PLACE = """
import asyncio
from {module} import place
placed = place({order})
if asyncio.iscoroutine(placed):
    asyncio.run(placed)
"""
CHECK = """
import {module}
app = getattr({module}, "app", None)
print(*([] if app is None else app.check()))
"""


def as_here(text: str, database: str) -> str:
    """A block, with the database of this test in place of its own, and patience. SQLAlchemy's driver stays."""
    plain = database.partition("://")[2]
    text = text.replace("timeout_ms=10_000", "timeout_ms=60_000")
    return URL.sub(lambda found: f"postgresql{found[2] or ''}://{plain}", text)


def write_project(directory: Path, database: str) -> None:
    """The modules of all pages, and `everything.py`, which imports those that belong to shop.py."""
    for name, block in MODULES.items():
        (directory / name).write_text(as_here(block.text, database))
    tasks = [name for name, block in MODULES.items() if "@app." in block.text and "from shop import app" in block.text]
    imports = "".join(f"import {name.removesuffix('.py')}\n" for name in tasks)
    (directory / "everything.py").write_text(f"from shop import app\n{imports}")


@contextmanager
def worker(directory: Path) -> Iterator[None]:
    with (directory / "worker.log").open("w") as log:
        started = Command(["worker", "everything:app", "--processes", "1"], cwd=directory, stdout=log, stderr=log)
        try:
            yield
        finally:
            started.terminate()
            started.wait()


def django_settings(database: str) -> str:
    parts = urlsplit(database)
    query = {name: values[0] for name, values in parse_qs(parts.query).items()}
    return json.dumps(
        {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": parts.path[1:],
            "USER": parts.username or "",
            "PASSWORD": parts.password or "",
            "HOST": query.get("host", parts.hostname or ""),
            "PORT": query.get("port", str(parts.port or "")),
        }
    )


def run(directory: Path, database: str, blocks: list[Block]) -> list[list[str]]:
    """What each block prints. All run in one process: a start of Python with all libraries takes a second."""
    given = json.dumps([{"place": block.place, "text": as_here(block.text, database)} for block in blocks])
    command = [sys.executable, "-c", RUN, django_settings(database)]
    environ = {**os.environ, "PYTHONPATH": str(directory)}
    done = subprocess.run(command, cwd=directory, env=environ, input=given, capture_output=True, text=True, timeout=240)
    lines = done.stdout.splitlines()[: len(blocks)]
    next_one = blocks[len(lines)].place if len(lines) < len(blocks) else ""
    assert done.returncode == 0, f"{next_one}\n{done.stderr}\n{(directory / 'worker.log').read_text()[-3000:]}"
    return [json.loads(line) for line in lines]


@dataclass(frozen=True, slots=True)
class Done:
    """What the blocks of all pages have printed, by their places, and the rows that they have left."""

    printed: dict[str, list[str]]
    orders: list[int]
    tasks: list[str]
    """The arguments of the tasks of these orders."""


@pytest.fixture(scope="module")
def done(server: DatabaseServer, tmp_path_factory: pytest.TempPathFactory) -> Done:
    directory = tmp_path_factory.mktemp("project")
    placing = [
        Block(f"{module}.place", 1, "python", PLACE.format(module=module, order=FIRST_ORDER + number))
        for number, module in enumerate(PLACES)
    ]
    # At the end: one of the modules makes all later sends traces.
    names = [name.removesuffix(".py") for name in MODULES]
    checking = [Block(f"{name}.check", 1, "python", CHECK.format(module=name)) for name in names]
    blocks = [*USES, *placing, *checking]
    with server.database() as url, psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE TABLE orders (id integer)")
        write_project(directory, url)
        with worker(directory):
            printed = run(directory, url, blocks)
        orders = connection.execute("SELECT id FROM orders ORDER BY id").fetchall()
        tasks = connection.execute("SELECT args FROM horsies_tasks WHERE args LIKE '[90000_]' ORDER BY args").fetchall()
    by_place = {block.place: lines for block, lines in zip(blocks, printed, strict=True)}
    return Done(by_place, [order for (order,) in orders], [args for (args,) in tasks])


@pytest.mark.chaos  # with the next two tests four seconds of processor time; .ci/run runs them
def test_what_the_pages_print_is_what_they_say(done: Done) -> None:
    assert len(USES) > 10
    wanted = {block.place: PRINTS.findall(block.text) for block in USES}
    assert {place: done.printed[place] for place in wanted} == wanted


@pytest.mark.chaos
def test_an_order_and_its_task_are_stored_together(done: Done) -> None:
    assert len(PLACES) == 6
    assert done.orders == [FIRST_ORDER + number for number in range(6)]
    assert done.tasks == [f"[{order}]" for order in done.orders]


@pytest.mark.chaos
def test_each_module_can_be_imported_and_its_application_passes_the_check(done: Done) -> None:
    checked = {place: lines for place, lines in done.printed.items() if ".check:" in place}
    assert len(checked) == len(MODULES)
    assert {place: lines for place, lines in checked.items() if lines != [""]} == {}


async def test_each_sql_block_is_understood_by_postgresql(connection: asyncpg.Connection) -> None:
    blocks = [block for block in BLOCKS if block.language == "sql"]
    assert blocks
    for block in blocks:
        transaction = connection.transaction()
        await transaction.start()
        await connection.execute(block.text)
        if block.page == "docs/how-it-works.md":  # it shows which queries have an index
            await connection.execute("SET LOCAL enable_seqscan = off")
            plan = "\n".join(line for (line,) in await connection.fetch(f"EXPLAIN {block.text}"))
            assert ("ix_horsies_tasks_ready" in plan, "ix_horsies_tasks_in_flight" in plan) == (True, True), plan
        await transaction.rollback()


async def test_each_command_that_only_looks_answers(
    tmp_path: Path, database: str, connection: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Commands that name no row, and verbs with --dry-run."""
    write_project(tmp_path, database)
    monkeypatch.setenv("HORSIES_DATABASE_URL", database)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("nightly", "poll"):
        await add_schedule(connection, name, definition())
    lines = {tuple(words[1:]) for block in BLOCKS for words in commands(block)}
    chosen = [words for words in sorted(lines) if "--context" not in words and not any(map(is_an_id, words))]
    chosen = [words for words in chosen if "--dry-run" in words or any(LOOKS.match(word) for word in words[:2])]
    answers = {" ".join(words): await horsies(*words) for words in chosen}
    assert len(answers) > 10
    assert {words: said.words for words, said in answers.items() if said.code != 0} == {}


def is_an_id(word: str) -> bool:
    return re.fullmatch(r"[0-9a-f]{8}", word) is not None
