"""Tones: the meanings of colours as component classes. Widgets name a tone; themes define its colour."""

from __future__ import annotations

from enum import StrEnum
from typing import Final


class Tone(StrEnum):
    """A meaning of a colour. The value is the component class."""

    PENDING = "tone--pending"
    CLAIMED = "tone--claimed"
    RUNNING = "tone--running"
    COMPLETED = "tone--completed"
    FAILED = "tone--failed"
    CANCELLED = "tone--cancelled"
    EXPIRED = "tone--expired"
    RETRY = "tone--retry"
    INTERRUPTED = "tone--interrupted"
    MUTED = "tone--muted"
    """Secondary: ids, units, normal values."""
    STRONG = "tone--strong"
    ACCENT = "tone--accent"
    GOOD = "tone--good"
    WARNING = "tone--warning"
    BAD = "tone--bad"
    STRING = "tone--string"
    """Strings in JSON and in source code."""
    NUMBER = "tone--number"
    """Numbers in JSON and in source code, and true, false and null."""


TONES: Final[frozenset[str]] = frozenset(Tone)
"""COMPONENT_CLASSES of a widget that uses tones."""
AREA: Final = {tone: f"area--{tone.partition('--')[2]}" for tone in Tone}
"""The classes of the area below a curve by its tone; COMPONENT_CLASSES of a widget that draws curves."""


def state_tone(state: str) -> Tone | None:
    """Return the tone of a status or state; None if it is unknown."""
    return _BY_STATE.get(state)


_BY_STATE: Final = {
    **{
        name: Tone[name]
        for name in (
            "PENDING",
            "CLAIMED",
            "RUNNING",
            "COMPLETED",
            "FAILED",
            "CANCELLED",
            "EXPIRED",
            "RETRY",
            "INTERRUPTED",
        )
    },
    "READY": Tone.PENDING,
    "ENQUEUED": Tone.CLAIMED,
    "SKIPPED": Tone.CANCELLED,
    "PAUSED": Tone.INTERRUPTED,
    "PRUNED": Tone.MUTED,
}

_COLOURS: Final = {
    Tone.PENDING: "$text",
    Tone.CLAIMED: "$secondary",
    Tone.RUNNING: "$primary",
    Tone.COMPLETED: "$success",
    Tone.FAILED: "$error",
    Tone.CANCELLED: "$text-muted",
    Tone.EXPIRED: "$warning",
    Tone.RETRY: "$warning",
    Tone.INTERRUPTED: "$warning",
    Tone.MUTED: "$text-muted",
    Tone.STRONG: "$text",
    Tone.ACCENT: "$accent",
    Tone.GOOD: "$success",
    Tone.WARNING: "$warning",
    Tone.BAD: "$error",
    Tone.STRING: "$text",
    Tone.NUMBER: "$text",
}

OWN: Final = {
    Tone.INTERRUPTED: {":dark": "#f08c3c", ":light": "#a13d00", ":ansi": "ansi_bright_red"},
    Tone.STRING: {":dark": "#b9c7a4", ":light": "#4a5d23", ":ansi": "ansi_default"},
    Tone.NUMBER: {":dark": "#d8b99a", ":light": "#7a4b1f", ":ansi": "ansi_default"},
}
"""Our own colours by the kind of theme. No theme has a colour between warning and error, for what needs a decision, or
colours for JSON that resemble no state.
"""
_AREA_SHARE: Final = 50
"""Percentage of the curve's colour in its area; the rest is the background."""


def area_css(widget: str) -> str:
    """Return the rules for DEFAULT_CSS of a widget type that has AREA as COMPONENT_CLASSES."""
    rules = [f"{widget} > .{AREA[tone]} {{ color: {colour} {_AREA_SHARE}%; }}" for tone, colour in _COLOURS.items()]
    rules += [f"{widget}:ansi > .{AREA[tone]} {{ color: {_COLOURS[tone]}; text-style: dim; }}" for tone in Tone]
    return "\n".join(rules)


def tone_css(widget: str) -> str:
    """Return the rules for DEFAULT_CSS of a widget type that has TONES as COMPONENT_CLASSES. They use only variables of
    all themes, so the widget works in any application.
    """
    rules = [f"{widget} > .{tone} {{ color: {colour}; }}" for tone, colour in _COLOURS.items()]
    rules.append(f"{widget} > .{Tone.STRONG} {{ text-style: bold; }}")
    rules += [
        f"{widget}{ground} > .{tone} {{ color: {colour}; }}"
        for tone, colours in OWN.items()
        for ground, colour in colours.items()
    ]
    # Sixteen colours have no grey that is readable on both black and white.
    rules += [f"{widget}:ansi > .{tone} {{ text-style: dim; }}" for tone in (Tone.MUTED, Tone.CANCELLED)]
    return "\n".join(rules)
