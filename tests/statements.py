"""The engine's SQL statements by name, without their modules; names are unique."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import horsies


@cache
def statements() -> dict[str, str]:
    found: dict[str, str] = {}
    for file in sorted(Path(horsies.__file__).parent.rglob("*.sql")):
        _, *parts = re.split(r"^-- name: (\w+)\n", file.read_text(), flags=re.MULTILINE)
        for name, text in zip(parts[::2], parts[1::2], strict=True):
            assert name not in found, f"two statements are called {name}"
            found[name] = text
    return found


def statement(name: str) -> str:
    """Its text, with the fragments that are the same for every caller; the places of the others are left."""
    text = statements()[name]
    for fragment in ("claim_beat", "run_beat", "attempt_number"):
        text = text.replace(f"/* {fragment} */", statements()[fragment])
    return text
