"""The README's application, as it is written there: checked, run by a worker, and used."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)\n```", README, re.DOTALL)
MODULES = {name: text for text in BLOCKS for name in re.findall(r"\A# (\w+\.py)\n", text)}
USES = [text for text in BLOCKS if text.startswith(("from shop import", "from orders import"))]
HORSIES = Path(sys.executable).with_name("horsies")


@pytest.fixture
def directory(tmp_path: Path, short_directory: Path) -> Iterator[Path]:
    """The modules of the README, on a database of the test's, and a worker that runs them."""
    for name, text in MODULES.items():
        (tmp_path / name).write_text(text.replace("embedded:///tmp/shop", f"embedded://{short_directory}"))
    log = (tmp_path / "worker.log").open("w")
    worker = subprocess.Popen(
        [HORSIES, "worker", "orders:app", "--processes", "1"], cwd=tmp_path, stdout=log, stderr=log
    )
    yield tmp_path
    worker.terminate()
    worker.wait()
    log.close()


def run(directory: Path, *command: str | Path) -> str:
    done = subprocess.run(command, cwd=directory, env=os.environ, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr + (directory / "worker.log").read_text()
    return done.stdout


def test_the_application_of_the_readme_does_what_is_written_beside_it(directory: Path) -> None:
    assert sorted(MODULES) == ["orders.py", "shop.py"]
    assert len(USES) == 2
    assert "all validations passed" in run(directory, HORSIES, "check", "orders:app")
    for text in reversed(USES):  # the first one sends ten thousand tasks, and then the other one would wait
        wanted = re.findall(r"^print\(.*\)  # (TaskResult\(.*?\))(?:;|$)", text, re.MULTILINE)
        assert run(directory, sys.executable, "-c", text).splitlines() == wanted
