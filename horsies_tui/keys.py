"""Names of keys: Textual's names, and the labels that the console shows and reads from the config file."""

from __future__ import annotations

import unicodedata
from typing import Final

from textual.keys import KEY_NAME_REPLACEMENTS, Keys, format_key

_GLYPHS: Final = {"enter": "↵", "up": "↑", "down": "↓", "left": "←", "right": "→"}
_PLAIN: Final = {"enter": "enter", "escape": "esc", "pageup": "pgup", "pagedown": "pgdn", "space": "space"}
_MODIFIERS: Final = frozenset({"ctrl", "shift", "alt", "super", "hyper", "meta"})
_NAMED: Final = frozenset(key.value for key in Keys)
_OTHER_NAMES: Final = {"esc": "escape", "return": "enter", "pgup": "pageup", "pgdn": "pagedown", "del": "delete"}


def key_label(key: str, *, ascii_only: bool = False) -> str:
    """Return the label of a key: `?` for question_mark, `↵` for enter, `^r` for ctrl+r."""
    modifiers, plus, last = key.rpartition("+")
    name = _PLAIN.get(last) or format_key(last)
    if ascii_only and not name.isascii():
        name = last
    elif not ascii_only:
        name = _GLYPHS.get(last, name)
    return (modifiers + plus).replace("ctrl+", "^") + name


def key_name(text: str) -> str | None:
    """Textual's name for a key that the user wrote as `/`, `F5` or `Ctrl+f`; None if there is no such key."""
    *modifiers, last = text.split("+") if len(text) > 1 else [text]
    last = last if len(last) == 1 else _OTHER_NAMES.get(last.lower(), last.lower())
    modifiers = [modifier.lower() for modifier in modifiers]
    if not _MODIFIERS.issuperset(modifiers):
        return None
    if len(last) == 1:
        last = _name_of_character(last)
    elif last not in _NAMED and format_key(last) == last:
        return None
    return "+".join([*modifiers, last])


def _name_of_character(character: str) -> str:
    if character.isalnum():
        return character
    name = unicodedata.name(character, character).lower().replace("-", "_").replace(" ", "_")
    return KEY_NAME_REPLACEMENTS.get(name, name)
