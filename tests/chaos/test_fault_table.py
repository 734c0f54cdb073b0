"""The table of scenes has a row for each scene that was run, including failed ones."""

from __future__ import annotations

from pathlib import Path

import pytest
from chaos_scene import TABLE_VARIABLE, scene


def rows(table: Path) -> list[str]:
    return [line for line in table.read_text().splitlines() if line.startswith("| ") and "| tasks |" not in line]


@pytest.mark.chaos
async def test_a_scene_that_fails_has_its_row_in_place_of_the_last_one(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = tmp_path / "faults.md"
    monkeypatch.setenv(TABLE_VARIABLE, str(table))
    table.write_text("| a later one | 1 | 1 | 0 | 0.00 s | 0 |\n| a fault | 1 | 1 | 0 | 0.00 s | 0 |\n")

    async def fails() -> None:
        async with scene(database, tmp_path, "a fault") as cluster:
            await cluster.send("work", 2, 0.1)
            await cluster.begun(["work-0"], patience_s=0.1)  # there is no worker

    with pytest.raises(TimeoutError):
        await fails()
    assert rows(table) == ["| a fault | 2 | 0 | 0 | 0.00 s | failed, 4 |", "| a later one | 1 | 1 | 0 | 0.00 s | 0 |"]


@pytest.mark.chaos
async def test_what_an_audit_has_found_before_its_scene_fails_is_counted(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = tmp_path / "faults.md"
    monkeypatch.setenv(TABLE_VARIABLE, str(table))

    async def fails() -> None:
        async with scene(database, tmp_path, "a fault") as cluster:
            await cluster.send("work", 1, 0.1)
            audit = await cluster.audit()
            await cluster.connection.close()  # so that a second audit would fail
            assert audit.violations == []

    with pytest.raises(AssertionError):
        await fails()
    assert rows(table) == ["| a fault | 1 | 0 | 0 | 0.00 s | failed, 2 |"]
