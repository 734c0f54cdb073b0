"""The Python of README.md and docs/, as it is written there: one project, checked, run by a worker, and used."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import asyncpg
import pytest
from cli_steps import horsies
from doc_pages import BLOCKS, MODULES, Block, commands
from forked_commands import Command
from schedule_scene import add_schedule, definition

URL = re.compile(r"(postgresql|embedded)(\+\w+)?://[^\"'\s…)]*")
USES = [block for block in BLOCKS if block.language == "python" and not block.module]
PRINTS = re.compile(r"^ *print\(.*\)  # (.+)$", re.MULTILINE)
RUN = """
import io, json, sys
from contextlib import redirect_stdout

from django.conf import settings
settings.configure(DATABASES={"default": json.loads(sys.argv[1])}, USE_TZ=True)
for block in json.load(sys.stdin):
    out = io.StringIO()
    with redirect_stdout(out):
        exec(compile(block["text"], block["place"], "exec"), {"__name__": "__main__"})
    print(json.dumps(out.getvalue().splitlines()), flush=True)
"""
"""Runs the blocks, in one process: a start of Python with all libraries takes a second."""


def as_here(text: str, database: str) -> str:
    """A block, with the database of this test in place of its own, and patience. SQLAlchemy's driver stays."""
    plain = database.partition("://")[2]
    text = text.replace("timeout_ms=10_000", "timeout_ms=60_000")
    return URL.sub(lambda found: f"postgresql{found[2] or ''}://{plain}", text)


@pytest.fixture
def project(tmp_path: Path, database: str) -> Path:
    """The modules of all pages, and `everything.py`, which imports those that belong to shop.py."""
    for name, block in MODULES.items():
        (tmp_path / name).write_text(as_here(block.text, database))
    tasks = [name for name, block in MODULES.items() if "@app." in block.text and "from shop import app" in block.text]
    imports = "".join(f"import {name.removesuffix('.py')}\n" for name in tasks)
    (tmp_path / "everything.py").write_text(f"from shop import app\n{imports}")
    return tmp_path


@pytest.fixture
def worker(project: Path) -> Iterator[Path]:
    log = (project / "worker.log").open("w")
    started = Command(["worker", "everything:app", "--processes", "1"], cwd=project, stdout=log, stderr=log)
    yield project
    started.terminate()
    started.wait()
    log.close()


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


def worker_log(project: Path) -> str:
    log = project / "worker.log"
    return log.read_text()[-3000:] if log.exists() else ""


def run(project: Path, database: str, blocks: list[Block]) -> list[list[str]]:
    """What each block prints."""
    given = json.dumps([{"place": block.place, "text": as_here(block.text, database)} for block in blocks])
    command = [sys.executable, "-c", RUN, django_settings(database)]
    environ = {**os.environ, "PYTHONPATH": str(project)}
    done = subprocess.run(command, cwd=project, env=environ, input=given, capture_output=True, text=True, timeout=120)
    printed = [json.loads(line) for line in done.stdout.splitlines()]
    next_one = blocks[len(printed)].place if len(printed) < len(blocks) else ""
    assert done.returncode == 0, f"{next_one}\n{done.stderr}\n{worker_log(project)}"
    return printed


CHECK = """
import {module}
app = getattr({module}, "app", None)
print(*([] if app is None else app.check()))
"""


def test_each_module_can_be_imported_and_its_application_passes_the_check(project: Path, database: str) -> None:
    names = [name.removesuffix(".py") for name in MODULES]
    printed = run(project, database, [Block(name, 1, "python", CHECK.format(module=name)) for name in names])
    assert dict(zip(names, printed, strict=True)) == {name: [""] for name in names}


PLACE = """
import asyncio
from {module} import place
placed = place({order})
if asyncio.iscoroutine(placed):
    asyncio.run(placed)
"""
PLACES = [module.removesuffix(".py") for module, block in MODULES.items() if "INSERT INTO orders" in block.text]
"""Modules that store an order and send its task in one transaction."""


async def test_an_order_and_its_task_are_stored_together(
    project: Path, database: str, connection: asyncpg.Connection
) -> None:
    await connection.execute("CREATE TABLE orders (id integer)")
    placing = [
        Block(module, 1, "python", PLACE.format(module=module, order=number)) for number, module in enumerate(PLACES)
    ]
    await asyncio.to_thread(run, project, database, placing)
    orders = await connection.fetch("SELECT id FROM orders ORDER BY id")
    tasks = await connection.fetch("SELECT args FROM horsies_tasks ORDER BY args")
    assert [row["id"] for row in orders] == list(range(len(PLACES)))
    assert [json.loads(row["args"]) for row in tasks] == [[row["id"]] for row in orders]
    assert len(orders) == 6


async def test_each_sql_block_is_understood_by_postgresql(connection: asyncpg.Connection) -> None:
    blocks = [block for block in BLOCKS if block.language == "sql"]
    assert blocks
    for block in blocks:
        transaction = connection.transaction()
        await transaction.start()
        await connection.execute(block.text)
        await transaction.rollback()


LOOKS = re.compile(r"(ls|show|status|stats|next|graph|doctor|check)$")


async def test_each_command_that_only_looks_answers(
    project: Path, database: str, connection: asyncpg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Commands that name no row, and verbs with --dry-run."""
    monkeypatch.setenv("HORSIES_DATABASE_URL", database)
    monkeypatch.chdir(project)
    monkeypatch.syspath_prepend(project)
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


def test_what_the_pages_print_is_what_they_say(worker: Path, database: str) -> None:
    assert len(USES) > 10
    printed = run(worker, database, USES)
    wanted = [PRINTS.findall(block.text) for block in USES]
    assert {block.place: lines for block, lines in zip(USES, printed, strict=True)} == {
        block.place: lines for block, lines in zip(USES, wanted, strict=True)
    }
