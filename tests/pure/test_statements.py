"""The SQL files of the engine: the module of each statement, and the content of its first line."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from statements import statements

import horsies

ENGINE = Path(horsies.__file__).parent
FILES = [file for file in sorted(ENGINE.rglob("*.sql")) if "schema" not in file.parts]


@pytest.mark.parametrize("file", FILES, ids=[str(file.relative_to(ENGINE)) for file in FILES])
def test_the_module_beside_it_runs_each_of_its_statements(file: Path) -> None:
    names = re.findall(r"^-- name: (\w+)\n", file.read_text(), re.MULTILINE)
    module = file.with_suffix(".py").read_text()
    missing = [name for name in names if f'"{name}"' not in module and f"'{name}'" not in module]
    if file.stem == "retention":  # it composes their names
        missing = [name for name in missing if not name.startswith(("old_", "prune_"))]
    assert names
    assert missing == []


@pytest.mark.parametrize("name", statements())
def test_the_first_line_says_who_runs_it(name: str) -> None:
    assert re.match(r"-- \S", statements()[name])
