"""`horsies new`: a small project to begin with."""

from __future__ import annotations

import importlib.util
import json
import keyword
import re
from pathlib import Path
from typing import Annotated, Final

import typer

from horsies.cli.options import DebugOption, invalid
from horsies.display.terminal import say

FILES: Final = {
    "NAME.py": "module.py",
    "test_NAME.py": "test_module.py",
    "pyproject.toml": "pyproject.toml",
    "README.md": "README.md",
    "compose.yaml": "compose.yaml",
    "Dockerfile": "Dockerfile",
    ".dockerignore": "dockerignore",
    ".gitignore": "gitignore",
    "NAME-worker.service": "worker.service",
}
"""Each file of a project, and its template."""
_DISTRIBUTION: Final = "horsies-console"
_VALID: Final = re.compile(r"[a-z][a-z0-9_]{0,39}")
_TAKEN: Final = frozenset({"horsies", "horsies_tui", "pytest", "postgres", "worker", "scheduler"})


def new(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name of the project and of its module: `shop`.")],
    debug: DebugOption = False,
) -> None:
    """Create a directory with a small project: a task and a schedule, their test, a compose file and a systemd unit.

    Nothing that exists is changed. The project uses an embedded database until you give it another one.
    """
    _require_valid(name)
    directory, contents = Path(name), _contents(name)
    try:
        directory.mkdir(exist_ok=True)
        if any(directory.iterdir()):
            raise invalid(f"{directory.absolute()} is not empty", "name another directory, or move it away")
        for path, text in contents.items():
            with (directory / path).open("x", encoding="utf-8") as file:
                file.write(text)
    except OSError as error:
        raise invalid(f"cannot make {directory.absolute()}: {error.strerror}", "name another place or name") from error
    say(
        f"made {directory.absolute()}",
        *(f"  {path}" for path in sorted(contents)),
        "next:",
        f"  cd {name} && pytest",
        f"  horsies worker {name}:app --reload --with-scheduler",
        f"  horsies tui --module {name}:app     # in another terminal",
    )


def _require_valid(name: str) -> None:
    """Refuse a name that cannot be a module, a systemd user, a service and a database, or is one already."""
    if not _VALID.fullmatch(name):
        help_text = "use lower-case letters, digits and _, for example web_shop"
        raise invalid(f"{name!r} cannot be the name of a module", help_text)
    if keyword.iskeyword(name) or keyword.issoftkeyword(name):
        raise invalid(f"{name!r} is a keyword of Python", f"choose another: {name}_tasks")
    if name in _TAKEN or name.startswith("test_") or importlib.util.find_spec(name) is not None:
        raise invalid(f"{name!r} is the name of another module", f"choose another: my_{name}")


def _contents(name: str) -> dict[str, str]:
    templates = Path(__file__).parent / "new_project"
    words = {"NAME": name, "EMBEDDED_REQUIREMENT": _requirement("[embedded]"), "REQUIREMENT": _requirement()}
    contents = {path: (templates / f"{template}.template").read_text("utf-8") for path, template in FILES.items()}
    for word, meaning in words.items():
        contents = {path.replace(word, meaning): text.replace(word, meaning) for path, text in contents.items()}
    return contents


def _requirement(extra: str = "") -> str:
    """Return this installation as a requirement, with the place that it came from, which no index needs to know."""
    from importlib.metadata import PackageNotFoundError, distribution

    import horsies

    try:
        origin = json.loads(distribution(_DISTRIBUTION).read_text("direct_url.json") or "{}")
    except PackageNotFoundError:  # the sources without an installation
        origin = {}
    version_control, url = origin.get("vcs_info"), origin.get("url")
    if url is None:
        return f"{_DISTRIBUTION}{extra}>={horsies.__version__}"
    if version_control is not None:
        url = f"{version_control['vcs']}+{url}@{version_control['commit_id']}"
    return f"{_DISTRIBUTION}{extra} @ {url}"
