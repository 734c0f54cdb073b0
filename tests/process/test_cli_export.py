"""`horsies tasks export` and `workflows export`: every row of a filter, as CSV or JSON lines, in a new file."""

from __future__ import annotations

import csv
import io
import json
import os
from datetime import datetime
from pathlib import Path

import asyncpg
import pytest
from cli_steps import failed, horsies, insert

from horsies.cli.options import ExportFormat
from horsies.display.exporting import PAGE, Format, export_rows, new_file, safe_text, tasks_export
from horsies.domain.errors import HorsiesError
from horsies.query import parse

FORMULA = "=HYPERLINK(\"http://evil\"; 'click')"


@pytest.fixture(autouse=True)
def _here(database: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HORSIES_DATABASE_URL", database)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)


def test_the_formats_are_those_of_the_exporter() -> None:
    assert [form.value for form in ExportFormat] == [form.value for form in Format]


async def test_every_row_of_the_filter_is_in_the_file_once_beyond_any_page(
    connection: asyncpg.Connection, tmp_path: Path
) -> None:
    await insert(connection, *(f"m{number}" for number in range(2 * PAGE + 7)), queue_name="'mail'")
    await insert(connection, "other")
    told = await horsies("tasks", "export", "mail.csv", "--filter", "queue:mail")
    assert (told.code, told.out) == (0, "")
    assert f"{2 * PAGE + 7} tasks in mail.csv" in told.err
    rows = list(csv.DictReader(io.StringIO((tmp_path / "mail.csv").read_text())))
    assert {row["id"] for row in rows} == {f"m{number}" for number in range(2 * PAGE + 7)}
    assert len(rows) == 2 * PAGE + 7
    assert {row["queue"] for row in rows} == {"mail"}
    again = await horsies("tasks", "export", "mail.csv")
    assert again.code == 1
    assert "mail.csv exists; choose another name" in again.err
    assert sorted(os.listdir(tmp_path)) == ["mail.csv"]  # noqa: PTH208 - of a temporary directory


async def test_json_lines_have_the_types_of_the_columns_and_no_cell_is_a_formula_or_acts_on_a_terminal(
    connection: asyncpg.Connection,
) -> None:
    await failed(connection, "f1")
    told = await horsies("tasks", "export", "--format", "jsonl", "-f", "status:failed")
    (row,) = [json.loads(line) for line in told.out.splitlines()]
    assert (row["id"], row["status"], row["attempt"], row["is_workflow_task"]) == ("f1", "FAILED", 1, False)
    assert datetime.fromisoformat(row["created_at"]).tzinfo is not None
    assert row["age_s"] >= 0
    assert "args" not in row
    await insert(connection, "t1", task_name=f"$q${FORMULA}$q$", queue_name="E'@x\\x1b[31m'", priority="5")
    told = await horsies("tasks", "export", "-f", "status:pending")
    (row,) = csv.DictReader(io.StringIO(told.out))
    assert row["name"] == f"'{FORMULA}"
    assert row["queue"] == "'@x\ufffd[31m"
    assert row["priority"] == "5"


@pytest.mark.parametrize(
    ("text", "cell"),
    [
        ("plain", "plain"),
        ("", ""),
        ("=1+1", "'=1+1"),
        ("+1", "'+1"),
        ("-1", "'-1"),
        ("@x", "'@x"),
        (" =1", "' =1"),
        ("\t=1", "'\t=1"),
        ("\n=1", "'\n=1"),
        ("\r=1", "\ufffd=1"),
        ("a=1", "a=1"),
        ("\x1b]0;x\x07", "\ufffd]0;x\ufffd"),
    ],
)
def test_a_text_is_made_safe_for_a_spreadsheet(text: str, cell: str) -> None:
    assert safe_text(text) == cell


async def test_workflows_are_exported_too(connection: asyncpg.Connection) -> None:
    await connection.execute("INSERT INTO horsies_workflows (id, name, status) VALUES ('w1', 'month_end', 'RUNNING')")
    told = await horsies("workflows", "export", "--filter", "status:running")
    (row,) = csv.DictReader(io.StringIO(told.out))
    assert (row["id"], row["name"], row["nodes"]) == ("w1", "month_end", "0")
    wrong = await horsies("workflows", "export", "--filter", "staus:running")
    assert wrong.code == 2
    assert "did you mean status?" in wrong.words


async def test_an_export_that_is_broken_off_leaves_no_file(connection: asyncpg.Connection, tmp_path: Path) -> None:
    await insert(connection, *(f"t{number}" for number in range(PAGE + 1)))

    def stop(rows: int) -> None:
        raise KeyboardInterrupt

    path = tmp_path / "t.csv"
    with pytest.raises(KeyboardInterrupt), new_file(path) as out:
        await export_rows(connection, tasks_export(parse("")), Format.CSV, out, stop)
    assert os.listdir(tmp_path) == []  # noqa: PTH208


def test_a_file_that_appears_meanwhile_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"

    def write() -> None:
        with new_file(path) as out:
            out.write("ours")
            assert not path.exists()
            path.write_text("theirs")

    with pytest.raises(HorsiesError, match="exists; choose another name"):
        write()
    assert path.read_text() == "theirs"
    assert [each.name for each in tmp_path.iterdir()] == ["t.csv"]
    with new_file(tmp_path / "u.csv") as out:
        out.write("ours")
    assert (tmp_path / "u.csv").read_text() == "ours"
    assert (tmp_path / "u.csv").stat().st_mode & 0o777 == 0o600
