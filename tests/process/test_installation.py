"""The README's first command on a fresh machine: only a copy of the sources and a new virtual environment."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def readme_commands() -> list[str]:
    """The one-line shell blocks of the README, in order."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    return [block for block in re.findall(r"```sh\n(.*?)\n```", text, re.DOTALL) if "\n" not in block]


def test_the_readme_begins_with_one_command_to_try_it_and_one_to_test_it() -> None:
    try_it, test_it = readme_commands()[:2]
    assert try_it.startswith("python3 -m venv .venv && ")
    assert try_it.endswith(".venv/bin/horsies demo")
    assert test_it.startswith("python3 -m venv .venv && ")
    assert test_it.endswith(".venv/bin/pytest")


def test_the_first_command_works_in_a_copy_of_the_sources(short_directory: Path, tmp_path: Path) -> None:
    sources = tmp_path / "clone"
    ignored = shutil.ignore_patterns(".git", ".venv", "__pycache__", ".*_cache", ".hypothesis")
    shutil.copytree(ROOT, sources, ignore=ignored)
    python3 = tmp_path / "bin" / "python3"
    python3.parent.mkdir()
    python3.symlink_to(sys.executable)  # the Python under test, whichever others this machine has
    kept = {name: value for name, value in os.environ.items() if name.startswith(("PIP_", "SSL_", "LANG", "LC_"))}
    environ = {
        **kept,
        "PATH": f"{python3.parent}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "HORSIES_HOME": str(short_directory),
    }
    command = f"{readme_commands()[0]} --headless --for 3 --json"
    done = subprocess.run(["sh", "-c", command], cwd=sources, env=environ, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout)["states"]["COMPLETED"] > 0
    installed = sources / ".venv" / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    assert (installed / "horsies" / "py.typed").exists()
    assert (installed / "horsies_tui" / "py.typed").exists()
    assert not (installed / "tests").exists()
