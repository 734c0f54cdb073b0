"""`horsies new`: a small project to begin with."""

from __future__ import annotations

import importlib.util
import keyword
import re
from pathlib import Path
from typing import Annotated, Final

import typer

from horsies.cli.options import DebugOption
from horsies.cli.tables import say
from horsies.domain.errors import ConfigurationError, ErrorCode

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
_VALID: Final = re.compile(r"[a-z][a-z0-9_]{0,39}")
_TAKEN: Final = frozenset({"horsies", "horsies_tui", "pytest", "postgres", "worker", "scheduler"})


def new(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Its name, which its module gets, too: `shop`.")],
    debug: DebugOption = False,
) -> None:
    """Make a directory with a small project: a task and a schedule, their test, a compose file and a systemd unit.

    Nothing that exists is changed. Without a database of yours it uses an embedded one.
    """
    _require_valid(name)
    directory = Path(name)
    _write(directory, name)
    say(
        f"made {directory.absolute()}",
        *(f"  {path}" for path in sorted(_contents(name))),
        "next:",
        f"  cd {name} && pytest",
        f"  horsies worker {name}:app --reload --with-scheduler",
        f"  horsies tui --module {name}:app     # in another terminal",
    )


def _require_valid(name: str) -> None:
    """It becomes a module, a user of systemd, a service and a database, none of which may be something else already."""
    if not _VALID.fullmatch(name):
        raise _refused(
            f"{name!r} cannot be the name of a module", "take lower-case letters, digits and _: for example web_shop"
        )
    if keyword.iskeyword(name) or keyword.issoftkeyword(name):
        raise _refused(f"{name!r} is a word of Python's own", f"take another one: {name}_tasks")
    if name in _TAKEN or name.startswith("test_") or importlib.util.find_spec(name) is not None:
        raise _refused(f"{name!r} is the name of another module", f"take another one: my_{name}")


def _contents(name: str) -> dict[str, str]:
    import horsies

    templates = Path(__file__).parent / "new_project"
    return {
        path.replace("NAME", name): (templates / f"{template}.template")
        .read_text("utf-8")
        .replace("NAME", name)
        .replace("VERSION", horsies.__version__)
        for path, template in FILES.items()
    }


def _write(directory: Path, name: str) -> None:
    """The directory is made by this command, or was empty: so no file can be overwritten."""
    try:
        directory.mkdir(exist_ok=True)
        if any(directory.iterdir()):
            raise _refused(f"{directory.absolute()} is not empty", "name another one, or move it away")
        for path, text in _contents(name).items():
            with (directory / path).open("x", encoding="utf-8") as file:
                file.write(text)
    except OSError as error:
        raise _refused(f"cannot make {directory.absolute()}: {error.strerror}", "name another place or name") from error


def _refused(message: str, help_text: str) -> ConfigurationError:
    return ConfigurationError(message, code=ErrorCode.CLI_INVALID_ARGS, help_text=help_text)
