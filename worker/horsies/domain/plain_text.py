"""Text of users: the gate before a terminal, and the names that the database accepts.

Only `clean` makes a PlainText, and no control character passes it: names, messages and arguments come from users and
from the database. Written by hand: libraries that remove escape sequences leave C1 controls, marks that reverse the
order of a line, and line feeds that forge lines of a log.
"""

from __future__ import annotations

import json
import re
import unicodedata
from typing import Final, NewType, cast

PlainText = NewType("PlainText", str)
"""One line of text without control characters, escape sequences and characters that reorder or join others."""
_JOINS: Final = re.compile(
    "[\ufe00-\ufe0f\U000e0100-\U000e01ef\U0001f3fb-\U0001f3ff"  # variants of a sign, and tones of skin
    "\u0488\u0489\u1abe\u20dd-\u20e0\u20e2-\u20e4\ua670-\ua672]"  # marks that enclose a sign: category Me
)
"""Printable characters that change the one before them."""

_NOT_PLAIN_IN_JSON: Final = re.compile(
    "[\x7f-\x9f\xad\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u180e\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\ud800-\udfff\ufeff\ufff9-\ufffb\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U000e0001\U000e0020-\U000e007f]"
)
"""Control characters and invisible marks that JSON allows inside a string; the test counts them."""


def clean(text: str) -> PlainText:
    """Control characters become blanks; characters that join or reorder others are removed, as terminals differ."""
    if text.isprintable() and (text.isascii() or _JOINS.search(text) is None):
        return cast("PlainText", text)
    return PlainText("".join(_harmless(char) for char in text))


def clean_json(text: str) -> str:
    """Return JSON with the same values, in which control characters and invisible marks are escaped as \\uXXXX."""
    return text if text.isascii() and "\x7f" not in text else _NOT_PLAIN_IN_JSON.sub(_escaped, text)


def _escaped(found: re.Match[str]) -> str:
    return json.dumps(found[0])[1:-1] if found[0] != "\x7f" else "\\u007f"


def _harmless(char: str) -> str:
    if _JOINS.match(char) is not None:
        return ""
    match unicodedata.category(char):
        case "Cf":
            return ""
        case "Cc" | "Zl" | "Zp" | "Zs" | "Cs" | "Co" | "Cn":
            return " "
        case _:
            return char


MAX_QUEUE_NAME_BYTES = 52
"""The insert trigger notifies `task_queue_<name>`; PostgreSQL allows 63 bytes for a channel and fails the insert."""

MAX_NAME_CHARACTERS = 255
"""Of a task, of a workflow, and of a definition_key: their columns hold no more."""


def why_not_a_queue_name(name: str) -> str | None:
    """Return why `name` cannot be a queue; None if it can."""
    size = len(name.encode("utf-8", "surrogatepass"))
    if size > MAX_QUEUE_NAME_BYTES:
        return f"queue name {name!r} has {size} bytes; the notification channel leaves room for {MAX_QUEUE_NAME_BYTES}"
    return why_not_a_name("queue name", name)


def why_not_a_task_name(name: str) -> str | None:
    """Return why `name` cannot be a task; None if it can."""
    if len(name) > MAX_NAME_CHARACTERS:
        return f"task name {name[:40]!r}… has {len(name)} characters; the column holds {MAX_NAME_CHARACTERS}"
    return why_not_a_name("task name", name)


def is_workflow_name(name: object) -> bool:
    """Return whether `name` can be the name of a workflow, or its definition_key."""
    return isinstance(name, str) and len(name) <= MAX_NAME_CHARACTERS and why_not_a_name("name", name) is None


def why_not_a_name(kind: str, name: str) -> str | None:
    """Return why `name` is refused; None if it is visible and fits on a screen and in a text column.

    `kind` is what the message calls it: queue name, unique_key.
    """
    if not name.strip():
        return f"the {kind} is empty"
    if not name.isprintable():
        return f"{kind} {name!r} has characters that cannot be printed or stored"
    return None
