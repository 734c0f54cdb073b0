"""`horsies doctor`: its lines, its JSON, its exit codes, and what an application adds."""

from __future__ import annotations

import re
from pathlib import Path

import asyncpg
import pytest
from cli_steps import horsies
from database_server import url_with

APP = """
from horsies import AppConfig, Horsies, PostgresConfig
app = Horsies(AppConfig(broker=PostgresConfig(database_url={!r}, pool_size=3, max_overflow=4)))
"""


async def test_a_database_that_is_well_is_one_line_for_each_check(database: str) -> None:
    told = await horsies("doctor", "--database-url", database)
    first, *lines = told.out.splitlines()
    assert (told.code, told.err) == (0, "")
    assert first.endswith(": well")
    assert {line[:10] for line in lines} == {"✓ ok      "}
    names = [line.split("  ")[0] for line in (line[10:] for line in lines)]
    assert names[:4] == ["schema", "search path", "connections", "pooler"]


async def test_what_fails_is_shown_with_its_remedy_and_makes_the_exit_code_1(
    connection: asyncpg.Connection, database: str
) -> None:
    await connection.execute("DROP INDEX ix_horsies_tasks_finished")
    told = await horsies("doctor", "--database-url", database)
    assert (told.code, told.out.splitlines()[0].partition(": ")[2]) == (0, "1 warn")
    assert "▲ warn    indexes                ix_horsies_tasks_finished is missing\n" in told.out
    assert f"{' ' * 33}→ CREATE INDEX CONCURRENTLY ix_horsies_tasks_finished ON horsies_tasks" in told.out
    await connection.execute("DROP INDEX ix_horsies_tasks_ready")
    told = await horsies("doctor", "--database-url", database, "--json")
    assert told.code == 1
    assert told.json["counts"] == {"ok": 14, "unknown": 0, "warn": 1, "fail": 2}
    assert set(told.json) == {"database", "now", "counts", "lines"}
    schema = told.json["lines"][0]
    assert set(schema) == {"check", "verdict", "evidence", "remedy"}
    assert (schema["check"], schema["verdict"]) == ("schema", "fail")


async def test_no_verdict_runs_into_the_name_of_its_check(database: str, role: str) -> None:
    told = await horsies("doctor", "--database-url", url_with(database, role=role))
    assert re.search(r"^\? unknown indexes  ", told.out, re.MULTILINE)


async def test_an_application_brings_its_database_and_its_settings(database: str, tmp_path: Path) -> None:
    path = tmp_path / "doctored.py"
    path.write_text(APP.format(database))
    told = await horsies("doctor", f"{path}:app", "--json")
    assert told.code == 0
    found = {line["check"]: line["evidence"] for line in told.json["lines"]}
    assert "each process of the application that sends may open up to 8" in found["connections"]
    assert found["retention"].endswith("(by the application)")


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (["--database-url", "postgresql://me:secret@localhost:1/none"], 1, "nothing answers at localhost:1"),
        (["no_such_module:app"], 1, "there is no module 'no_such_module'"),
        (["postgresql://me:secret@localhost:1/none"], 2, "write --database-url before it"),
        (["--nonsense"], 2, "No such option"),
    ],
)
async def test_without_a_database_there_is_one_clear_error(words: list[str], code: int, text: str) -> None:
    told = await horsies("doctor", *words)
    assert (told.code, told.out) == (code, "")
    assert text in told.words
    assert "secret" not in told.words
