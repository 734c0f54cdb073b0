"""The forms of the worker's log: a line for people, an object of JSON for machines, a text for other handlers."""

from __future__ import annotations

import json
import logging
import os
import time
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from collections.abc import Mapping

_STYLES = {
    "finished": "\x1b[32m",
    "failed": "\x1b[31m",
    "crashed": "\x1b[31m",
    "retry": "\x1b[33m",
    "interrupted": "\x1b[33m",
    "lost claim": "\x1b[35m",
    "expired": "\x1b[33m",
    "warning": "\x1b[33m",
    "error": "\x1b[31m",
    "critical": "\x1b[31m",
}
_NOT_MARKED = {*_STYLES, "log", "stderr"}
"""Their level needs no word of its own."""
_RESET = "\x1b[0m"


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
        return _with_text(" ".join([self._event, *_words(self._event, self._fields)]), self._fields)


def _words(event: str, fields: Mapping[str, Any]) -> list[str]:
    """What the record is about, its other fields, and the id at the end."""
    left_out = {"task", "id", "line", "traceback"}
    if event == "log":
        left_out |= {"logger", "message", "child", "extra"}
    rest = {name: value for name, value in fields.items() if value is not None and name not in left_out}
    rest |= fields.get("extra") or {}
    first = (fields.get("logger"), fields.get("task")) if event == "log" else (fields.get("task"),)
    words = [*first, *(f"{name}={value}" for name, value in rest.items()), fields.get("id")]
    return [str(word) for word in words if word]


def _with_text(text: str, fields: Mapping[str, Any]) -> str:
    """With what user code has written, and the traceback below."""
    written = fields.get("message") if "logger" in fields else fields.get("line")
    if written is not None:
        text += f" | {written}"
    return text if fields.get("traceback") is None else f"{text}\n{str(fields['traceback']).rstrip()}"


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
        label = f"{name:<11}"
        if self._colour and (style := _STYLES.get(name)):
            label = f"{style}{label}{_RESET}"
        elif record.levelno > logging.INFO and event not in _NOT_MARKED:
            label = f"{record.levelname.lower()}: {label}"
        text = _with_text(" ".join([clock, label, *_words(event, fields)]), fields)
        if record.exc_info:
            text += "\n" + self.formatException(record.exc_info)
        return text


class JsonFormatter(logging.Formatter):
    """One JSON object per line, with full ids."""

    def format(self, record: logging.LogRecord) -> str:
        fields: Mapping[str, Any] = getattr(record, "fields", {})
        content = {
            "at": record.created,
            "level": record.levelname,
            "event": _event_of(record),
            **{name: _plain(value) for name, value in fields.items() if value is not None},
        }
        if record.exc_info:
            content["traceback"] = self.formatException(record.exc_info)
        return json.dumps(content, default=str, ensure_ascii=False)


def _event_of(record: logging.LogRecord) -> str:
    return getattr(record, "event", None) or record.getMessage()


def _plain(value: Any) -> Any:
    return round(float(value), 6) if isinstance(value, Seconds) else value


def wants_colour(stream: TextIO) -> bool:
    """Colour for terminals, unless NO_COLOR is set; HORSIES_FORCE_COLOR overrides both."""
    if os.environ.get("HORSIES_FORCE_COLOR"):
        return True
    return stream.isatty() and not os.environ.get("NO_COLOR")


def configure_logging(level: str, handler: logging.StreamHandler[TextIO], *, as_json: bool = False) -> None:
    """Send the engine's records only to `handler`."""
    handler.setFormatter(JsonFormatter() if as_json else HumanFormatter(colour=wants_colour(handler.stream)))
    root = logging.getLogger("horsies")
    root.handlers[:] = [handler]
    root.propagate = False
    root.setLevel(level)
