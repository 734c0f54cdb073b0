"""Single values as stored JSON text, and back."""

from __future__ import annotations

from typing import Any

from horsies.domain.codec.json_text import parse_json, to_json
from horsies.domain.codec.plain import plain_json
from horsies.domain.codec.read import from_tree
from horsies.domain.codec.write import to_tree


def dump_value(value: Any, name: str = "value") -> str:
    """The compact JSON of `value`; CodecError names what cannot be written, with `name` as the start of its path."""
    text = plain_json(value)
    return to_json(to_tree(value, name), name) if text is None else text


def load_value(text: str, name: str = "value") -> Any:
    """The value of stored text, with its classes imported: CorruptJsonError, or HydrationError if one no longer
    exists."""
    return from_tree(parse_json(text, name), name)
