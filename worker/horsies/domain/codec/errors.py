"""Errors between Python values and stored JSON: always with the path of the value at fault.

CodecError (also ValueError)   a value that cannot be written
├── CorruptJsonError           stored text that is not JSON, or JSON of the wrong shape
└── HydrationError             valid JSON whose class no longer exists or refuses the data
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from horsies.domain.codec.text import clean_text

if TYPE_CHECKING:
    from collections.abc import Iterable

# A reason may quote a whole payload (pydantic does); error columns and logs must stay readable.
_REASON_LIMIT = 2_000
_PATH_LIMIT = 120


class CodecError(ValueError):
    """`str()` is `kwargs.order.lines[3]: Decimal is not JSON; convert it to str or float`."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path = path
        self.reason = clean_text(reason, _REASON_LIMIT)

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


class CorruptJsonError(CodecError):
    """The stored text is not JSON, or not the JSON that belongs in its column."""


class HydrationError(CodecError):
    """The stored data is sound, but the object it describes cannot be built in this process."""


def spell_path(steps: Iterable[str | int]) -> str:
    """`("kwargs", "order", "lines", 3)` as `kwargs.order.lines[3]`."""
    root, *rest = steps
    path = str(root) + "".join(f".{step}" if _is_name(step) else f"[{step!r}]" for step in rest)
    return clean_text(path, _PATH_LIMIT)


def _is_name(step: str | int) -> bool:
    return isinstance(step, str) and step.isidentifier()
