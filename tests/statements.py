"""The engine's SQL statements by name, without their modules; names are unique."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import horsies
from horsies.store import statements as loader

ENGINE = Path(horsies.__file__).parent


@cache
def statements() -> dict[str, str]:
    """The texts as they stand in the files."""
    return {name: text for name, (_, text) in _files().items()}


def module_of(name: str) -> str:
    return _files()[name][0]


def statement(name: str, **fragments: str) -> str:
    """The statement as it is sent, with these fragments in the places that its caller fills."""
    return loader.statement(module_of(name), name, **fragments)


@cache
def _files() -> dict[str, tuple[str, str]]:
    found: dict[str, tuple[str, str]] = {}
    for file in sorted(ENGINE.rglob("*.sql")):
        module = ".".join(("horsies", *file.relative_to(ENGINE).with_suffix("").parts))
        _, *parts = re.split(r"^-- name: (\w+)\n", file.read_text(), flags=re.MULTILINE)
        for name, text in zip(parts[::2], parts[1::2], strict=True):
            assert name not in found, f"two statements are called {name}"
            found[name] = module, text
    return found
