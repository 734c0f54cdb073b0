"""Loads the SQL files, each named like the module beside it and holding several named statements."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

_NAME = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)


def statement(module: str, name: str, **fragments: str) -> str:
    """The statement `name` of the SQL file beside `module`, including the comments on who runs it and what guards it.

    `fragments` replace their names in it, in this order: `/* audit */`. They are texts of SQL files, too.
    """
    text = _statements(module)[name]
    for place, fragment in fragments.items():
        text = text.replace(f"/* {place} */", fragment)
    return text


@cache
def _statements(module: str) -> dict[str, str]:
    package, _, file = module.rpartition(".")
    _, *parts = _NAME.split(files(package).joinpath(f"{file}.sql").read_text(encoding="utf-8"))
    return dict(zip(parts[::2], parts[1::2], strict=True))
