"""What is declared and installed: dependencies, the wheel, and with `-m chaos` the README's first command."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
OF_EXTRAS = {
    "worker/horsies/store/embedded/": "embedded",
    "worker/horsies/tracing.py": "otel",
    "horsies_tui/serving/": "serve",
}
IMPORT = re.compile(
    r"""^ *import (\w+)[\w.]*(?: as \w+)?$|^ *from (\w+)[\w.]* import |\bimport_module\("(\w+)""", re.MULTILINE
)
NOT_INSTALLED_BY_US = {"pytest": "worker/horsies/pytest_plugin.py"}
"""Loaded by the program itself."""


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


@pytest.mark.chaos  # three seconds of processor time; .ci/run runs it
def test_the_wheel_has_every_file_of_the_two_packages_and_no_other(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(tmp_path), str(ROOT)]
    built = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert built.returncode == 0, built.stdout + built.stderr
    (wheel,) = tmp_path.iterdir()
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if not name.startswith("horsies_console-")}
        (entry_points,) = (name for name in archive.namelist() if name.endswith("/entry_points.txt"))
        assert "horsies = horsies.cli.main:main" in archive.read(entry_points).decode()
        assert "[pytest11]\nhorsies = horsies.pytest_plugin" in archive.read(entry_points).decode()
    sources = {
        path.relative_to(above).as_posix()
        for above, package in ((ROOT / "worker", "horsies"), (ROOT, "horsies_tui"))
        for path in (above / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and "shots" not in path.parts
    }
    assert {"horsies/py.typed", "horsies_tui/py.typed"} <= packed
    assert packed == sources


@pytest.mark.chaos  # ten seconds of processor time; .ci/run begins with the same installation
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


def declared(requirements: list[str]) -> set[str]:
    return {normal(re.split(r"[^\w.-]", each, maxsplit=1)[0]) for each in requirements}


def normal(distribution: str) -> str:
    return re.sub(r"[-_.]+", "-", distribution).lower()


def imported(source: Path) -> set[str]:
    """The top-level names; by their lines, as parsing 700 files takes seconds."""
    return {name for names in IMPORT.findall(source.read_text("utf-8")) for name in names if name}


def test_what_is_imported_is_declared() -> None:
    known = sys.stdlib_module_names | {"horsies", "horsies_tui", "_typeshed"}
    of_modules = packages_distributions()
    missing, seen = set(), set()
    for source in (path for top in ("worker/horsies", "horsies_tui") for path in (ROOT / top).rglob("*.py")):
        path = source.relative_to(ROOT).as_posix()
        allowed = declared(PROJECT["dependencies"])
        for place, extra in OF_EXTRAS.items():
            allowed |= declared(PROJECT["optional-dependencies"][extra]) if path.startswith(place) else set()
        for top_level in imported(source) - known:
            distributions = set(map(normal, of_modules.get(top_level, [top_level])))
            seen |= distributions
            if not distributions & allowed and NOT_INSTALLED_BY_US.get(top_level) != path:
                missing.add((path, top_level))
    assert missing == set()
    assert {"rich", "aiohttp", "textual", "typer", "asyncpg", "opentelemetry-api"} <= seen
