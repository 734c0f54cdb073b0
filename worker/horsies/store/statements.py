"""SQL stands beside the module that runs it, under the same name: several statements a file, each after its name."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

_NAME = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)


def statement(module: str, name: str) -> str:
    """The statement `name` of the SQL file beside `module`, with the comments that say what guards it."""
    return _statements(module)[name]


@cache
def _statements(module: str) -> dict[str, str]:
    package, _, file = module.rpartition(".")
    _, *parts = _NAME.split(files(package).joinpath(f"{file}.sql").read_text(encoding="utf-8"))
    return dict(zip(parts[::2], parts[1::2], strict=True))
