"""The tests that docs/testing.md shows pass, with the configuration that it shows."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from horsies.testing.embedded import SERVER_VARIABLE

PAGE = (Path(__file__).parents[2] / "docs" / "testing.md").read_text(encoding="utf-8")
FILES = dict(re.findall(r"^```\w+\n# ([\w.]+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL))


@pytest.mark.chaos  # three seconds of processor time; .ci/run runs it
def test_what_the_page_shows_is_a_project_whose_tests_pass(tmp_path: Path, database: str) -> None:
    assert {"warehouse.py", "pytest.ini", "conftest.py"} < FILES.keys()
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    plugins = ("horsies.pytest_plugin", "pytest_asyncio.plugin", "no:cacheprovider")
    command = [sys.executable, "-m", "pytest", "-q", *(word for name in plugins for word in ("-p", name))]
    environment = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", SERVER_VARIABLE: database}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
    shown = len(re.findall(r"^ *(?:async )?def test_", PAGE, re.MULTILINE))
    assert f"\n{shown} passed" in done.stdout, done.stdout + done.stderr
