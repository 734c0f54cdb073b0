"""The payload of a task, decoded for display with masked values hidden, and the context of its sections."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from horsies.display.payload import HIDDEN, POSITIONAL, Masks
from horsies.domain.codec import CodecError, load_for_display
from horsies.domain.codec.read import Labelled
from horsies.domain.plan import MAP_DEFINITION
from horsies.domain.tags import WORKFLOW_CTX, WORKFLOW_META
from horsies.views import Stored
from horsies_tui.look.damage import drawn
from horsies_tui.look.units import size
from horsies_tui.story.frames import traceback_of
from horsies_tui.story.parts import preview
from horsies_tui.story.tree import Tree

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime, tzinfo

    from horsies.config.recovery import RecoveryConfig
    from horsies.findings.why import Why
    from horsies.views import TaskDetail
    from horsies_tui.look.glyphs import Glyphs
    from horsies_tui.story.lines import Fold


ARGUMENTS: Final = "arguments"
OUTCOME: Final = "outcome"
OPTIONS: Final = "options"
_MOST_SHOWN: Final = 60
"""Most characters of one argument in a list."""
_OF_THE_ENGINE: Final = (WORKFLOW_CTX, WORKFLOW_META, MAP_DEFINITION)


@dataclass(frozen=True, slots=True)
class PayloadPart:
    """One tree of a payload with its title, and a note on the size if only its beginning was read."""

    title: str
    tree: Tree
    note: str = ""


@dataclass(frozen=True, slots=True)
class Payload:
    """A decoded payload. `source` has the stored texts, so that the same texts are not decoded again."""

    source: Texts
    arguments: PayloadPart | None
    outcome: PayloadPart | None
    options: PayloadPart | None

    def parts(self) -> tuple[PayloadPart, ...]:
        return tuple(told for told in (self.arguments, self.outcome, self.options) if told is not None)

    def tree(self, section: str) -> Tree | None:
        return next((part.tree for part in self.parts() if part.tree.section == section), None)


class Texts(NamedTuple):
    """The stored texts of a task, or of a node without a task; `of` is its id."""

    of: str
    args: Stored | None
    kwargs: Stored | None
    result: Stored | None
    failed_reason: Stored | None
    options: Stored | None

    @property
    def length(self) -> int:
        """Return the number of characters to decode."""
        return sum(len(stored.text) for stored in self if isinstance(stored, Stored))


def source_of(detail: TaskDetail) -> Texts:
    return Texts(detail.row.id, detail.args, detail.kwargs, detail.result, detail.failed_reason, detail.options)


def read_payload(detail: TaskDetail, masks: Masks, before: Payload | None = None) -> Payload:
    return payload_of(source_of(detail), masks, before)


def payload_of(source: Texts, masks: Masks, before: Payload | None = None) -> Payload:
    """Decode the texts; may run in a thread. Parts unchanged since `before` are reused with their folding state."""
    known = before if before is not None and before.source[0] == source[0] else None

    def part(section: str, make: Callable[[Texts, Masks], PayloadPart | None]) -> PayloadPart | None:
        return drawn(section, lambda: make(source, masks), lambda words: PayloadPart(section, Tree(section, words)))

    return Payload(
        source,
        known.arguments if known and known.source[1:3] == source[1:3] else part(ARGUMENTS, _arguments),
        known.outcome if known and known.source[3:5] == source[3:5] else part(OUTCOME, _outcome),
        known.options if known and known.source[5] == source[5] else part(OPTIONS, _options),
    )


def arguments_line(args: Stored | None, kwargs: Stored | None, masks: Masks) -> str:
    """Return the arguments like `5, customer="anna"`, or their size if they were too long to be read."""
    stored = [each for each in (args, kwargs) if each is not None]
    if any(each.cut for each in stored):
        return size(sum(each.size for each in stored))
    value = _masked(args, kwargs, masks)
    named, numbered = value.get("kwargs"), value.get("args")
    parts = [preview(each, _MOST_SHOWN) for each in (numbered if isinstance(numbered, list) else [numbered]) if each]
    if isinstance(named, dict):
        parts += [f"{name}={preview(each, _MOST_SHOWN)}" for name, each in named.items()]
    elif named:
        parts.append(preview(named, _MOST_SHOWN))
    return ", ".join(parts)


def _masked(args: Stored | None, kwargs: Stored | None, masks: Masks) -> dict[str, Any]:
    value: dict[str, Any] = {}
    if kwargs is not None:
        value["kwargs"] = _own(_value(kwargs, masks))
    if args is not None:
        value["args"] = HIDDEN if masks.hides(POSITIONAL) else _value(args, masks)
    return value


def _arguments(texts: Texts, masks: Masks) -> PayloadPart | None:
    value = _masked(texts.args, texts.kwargs, masks)
    return PayloadPart("arguments", Tree(ARGUMENTS, value), _note(texts.kwargs, texts.args)) if value else None


def _own(kwargs: Any) -> Any:
    """Remove the arguments that the engine adds."""
    if not isinstance(kwargs, dict):
        return kwargs
    return {name: value for name, value in kwargs.items() if not str(name).startswith(_OF_THE_ENGINE)}


def _outcome(texts: Texts, masks: Masks) -> PayloadPart | None:
    reason = {"failed_reason": texts.failed_reason.text} if texts.failed_reason is not None else {}
    if texts.result is None:
        return PayloadPart("error", Tree(OUTCOME, reason)) if reason else None
    value, title = _value(texts.result, masks), "result"
    if isinstance(value, Labelled) and value.label == "TaskResult" and len(value.data) == 1:
        (side, value), *_ = value.data.items()
        if side == "err":
            error = _error(value)
            told = (error.get("message"), error.get("error_code"))
            title, value = "error", error if reason.get("failed_reason") in told else error | reason
    return PayloadPart(title, Tree(OUTCOME, value), _note(texts.result))


def _options(texts: Texts, masks: Masks) -> PayloadPart | None:
    if texts.options is None:
        return None
    return PayloadPart("options", Tree(OPTIONS, _value(texts.options, masks), folded=True), _note(texts.options))


def _error(value: Any) -> dict[str, Any]:
    """Return the fields of an error, the important ones first, with an exception's three texts as separate fields."""
    fields = value.data if isinstance(value, Labelled) else value
    if not isinstance(fields, dict):
        return {"error": value}
    exception = fields.get("exception")
    first = {key: fields[key] for key in ("error_code", "message", "data") if fields.get(key) is not None}
    rest = {key: item for key, item in fields.items() if key not in (*first, "exception") and item is not None}
    if not isinstance(exception, dict):
        return first | rest | ({} if exception is None else {"exception": exception})
    raised = {"exception": f"{exception.get('type')}: {exception.get('message')}"}
    trace = exception.get("traceback")
    traceback = {"traceback": traceback_of(trace) if isinstance(trace, str) else trace} if trace else {}
    return first | rest | raised | traceback


def _value(stored: Stored, masks: Masks) -> Any:
    """Decode a text. If it is not JSON, return it as it is, or hide it if values are masked."""
    text = closed(stored.text) if stored.cut else stored.text
    try:
        return masks.on(load_for_display(stored.text if text is None else text))
    except (CodecError, RecursionError):
        return HIDDEN if masks.names else stored.text


def _note(*texts: Stored | None) -> str:
    cut = [stored for stored in texts if stored is not None and stored.cut]
    return f"only the beginning of {size(sum(stored.size for stored in cut))}; y copies all" if cut else ""


@dataclass(frozen=True, slots=True)
class StoryContext:
    detail: TaskDetail
    now: datetime
    """The database's time; the time of the read if the task has ended or the screen is frozen."""
    glyphs: Glyphs
    zone: tzinfo | None
    recovery: RecoveryConfig
    why: Why | None = None
    payload: Payload | None = None
    """The decoded payload; None until it is read."""
    open: frozenset[Fold] = frozenset()
    """The unfolded parts, except those of the payload, which its trees store."""


_TOKENS: Final = re.compile(
    r'"(?P<inside>[^"\\]*(?:\\(?:u[0-9a-fA-F]{4}|[^u])[^"\\]*)*)(?P<end>"|\Z|\\(?:u[0-9a-fA-F]{0,3})?\Z)|[][{},:]'
)
_CLOSING: Final = {"{": "}", "[": "]"}
CUT_OFF: Final = "…"


def closed(beginning: str) -> str | None:
    """Close cut JSON: return valid JSON with all complete values and the beginning of a cut text, or None."""
    opened: list[str] = []
    safe, safe_depth = 0, 0
    before = ""
    for token in _TOKENS.finditer(beginning):
        kind = token.group()[0]
        if kind == '"':
            is_name = opened[-1:] == ["{"] and before in "{,"
            if token.group("end") != '"':
                if is_name:
                    break
                text = f'{beginning[: token.start()]}"{token.group("inside")}{CUT_OFF}"'
                return text + _closers(opened)
        elif kind in _CLOSING:
            opened.append(kind)
            safe, safe_depth = token.end(), len(opened)
        elif kind in "]}":
            if opened:
                opened.pop()
            safe, safe_depth = token.end(), len(opened)
        elif kind == ",":
            safe, safe_depth = token.start(), len(opened)
        before = kind
    return beginning[:safe] + _closers(opened[:safe_depth]) if safe else None


def _closers(opened: list[str]) -> str:
    return "".join(_CLOSING[each] for each in reversed(opened))
