"""The forms of the worker's log: a line for people, an object of JSON for machines, a text for other handlers.

Names, ids, messages and output are data. In none of the forms do they hold a control character or the password of a
URL, and in the forms for people each further line of a record is indented.
"""

from __future__ import annotations

import json
import logging
import os
import time
from typing import TYPE_CHECKING, Any, Final, TextIO

from horsies.domain.masking import mask_tree, mask_urls
from horsies.domain.plain_text import clean, clean_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_STYLES = {
    "finished": "\x1b[32m",
    "failed": "\x1b[31m",
    "crashed": "\x1b[31m",
    "retry": "\x1b[33m",
    "interrupted": "\x1b[33m",
    "claim lost": "\x1b[35m",
    "expired": "\x1b[33m",
    "warning": "\x1b[33m",
    "error": "\x1b[31m",
    "critical": "\x1b[31m",
}
_NOT_MARKED = {*_STYLES, "log", "stderr"}
"""Their level needs no word of its own."""
_RESET = "\x1b[0m"
_BELOW: Final = "\n    "
"""Before each further line of a record: no text of a task can look like another record."""


class Seconds(float):
    """A number for machines; for people in a comparable form: 34ms, 4.1s, 12m."""

    def __str__(self) -> str:
        seconds = float(self)
        if seconds < 1:
            return f"{seconds * 1000:.0f}ms"
        if seconds < 120:
            return f"{seconds:.1f}s"
        return f"{seconds / 60:.0f}m" if seconds < 7200 else f"{seconds / 3600:.1f}h"

    __format__ = object.__format__  # float's own would print all digits


class EventText:
    """The message of a record for handlers that an application has configured; written only if one asks for it."""

    __slots__ = ("_event", "_fields")

    def __init__(self, event: str, fields: Mapping[str, Any]) -> None:
        self._event = event
        self._fields = fields

    def __str__(self) -> str:
        first, below = _text(self._event, self._fields)
        return _plain(f"{self._event} {first}") + _indented(below)


def _text(event: str, fields: Mapping[str, Any]) -> tuple[str, list[str]]:
    """Return what the record is about, its other fields, its id and what user code has written; and the lines below."""
    left_out = {"task", "id", "line", "traceback"}
    if event == "log":
        left_out |= {"logger", "message", "child", "extra"}
    rest = {name: value for name, value in fields.items() if value is not None and name not in left_out}
    rest |= fields.get("extra") or {}
    first = (fields.get("logger"), fields.get("task")) if event == "log" else (fields.get("task"),)
    words = [*first, *(f"{name}={value}" for name, value in rest.items()), fields.get("id")]
    text = " ".join([str(word) for word in words if word])
    below: list[str] = []
    written = fields.get("message") if "logger" in fields else fields.get("line")
    if written is not None:
        line, *below = str(written).split("\n")
        text += f" | {line}"
    if fields.get("traceback") is not None:
        below += str(fields["traceback"]).rstrip().split("\n")
    return text, below


def _plain(text: str) -> str:
    return clean(mask_urls(text))


def _indented(lines: Iterable[str]) -> str:
    return "".join([_BELOW + _plain(line) for line in lines])


class HumanFormatter(logging.Formatter):
    """`12:04:31 finished    send_report took=34ms 01a1edfe-…`, coloured where a terminal shows it."""

    def __init__(self, *, colour: bool) -> None:
        super().__init__()
        self._colour = colour

    def format(self, record: logging.LogRecord) -> str:
        fields: Mapping[str, Any] = getattr(record, "fields", {})
        clock = time.strftime("%H:%M:%S", time.localtime(record.created))
        event = _event_of(record)
        name = record.levelname.lower() if event == "log" else event
        label = f"{_plain(name):<11}"
        if self._colour and (style := _STYLES.get(name)):
            label = f"{style}{label}{_RESET}"
        elif record.levelno > logging.INFO and event not in _NOT_MARKED:
            label = f"{record.levelname.lower()}: {label}"
        text, below = _text(event, fields)
        if record.exc_info:
            below += self.formatException(record.exc_info).split("\n")
        return f"{clock} {label} {_plain(text)}{_indented(below)}"


class JsonFormatter(logging.Formatter):
    """One JSON object per line, with full ids."""

    def format(self, record: logging.LogRecord) -> str:
        fields: Mapping[str, Any] = getattr(record, "fields", {})
        content = {
            "at": record.created,
            "level": record.levelname,
            "event": _event_of(record),
            **{name: _rounded(value) for name, value in fields.items() if value is not None},
        }
        if record.exc_info:
            content["traceback"] = self.formatException(record.exc_info)
        line = json.dumps(content, default=str, ensure_ascii=False)
        if "//" in line:  # a URL, or something like it
            line = json.dumps(mask_tree(content), default=lambda value: mask_urls(str(value)), ensure_ascii=False)
        return clean_json(line)


def _event_of(record: logging.LogRecord) -> str:
    return getattr(record, "event", None) or record.getMessage()


def _rounded(value: Any) -> Any:
    return round(float(value), 6) if isinstance(value, Seconds) else value


def wants_colour(stream: TextIO) -> bool:
    """Colour for terminals, unless NO_COLOR is set; HORSIES_FORCE_COLOR overrides both."""
    if os.environ.get("HORSIES_FORCE_COLOR"):
        return True
    return stream.isatty() and not os.environ.get("NO_COLOR")


def configure_logging(level: str, handler: logging.StreamHandler[TextIO], *, as_json: bool = False) -> None:
    """Send the engine's records only to `handler`; what other libraries log, and nobody handles, gets its form."""
    form = JsonFormatter() if as_json else HumanFormatter(colour=wants_colour(handler.stream))
    handler.setFormatter(form)
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(form)
    root = logging.getLogger("horsies")
    root.handlers[:] = [handler]
    root.propagate = False
    root.setLevel(level)
