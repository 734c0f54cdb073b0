"""Writes styled text to a terminal with as few bytes as its current colours allow. All drawing passes through it, so it
is also the console's gate: a text that no widget has cleaned cannot control the terminal.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

from rich.cells import cell_len, set_cell_size

from horsies.domain.plain_text import PlainText, clean

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.color import Color, ColorSystem
    from rich.segment import Segment
    from rich.style import Style

RESET: Final = "\x1b[0m"
_ATTRIBUTES: Final = (
    ("bold", "1"),
    ("dim", "2"),
    ("italic", "3"),
    ("underline", "4"),
    ("blink", "5"),
    ("blink2", "6"),
    ("reverse", "7"),
    ("conceal", "8"),
    ("strike", "9"),
    ("underline2", "21"),
    ("overline", "53"),
)


class _Ink(NamedTuple):
    """The terminal codes of one style; the colours are never empty."""

    attributes: tuple[str, ...]
    colour: str
    ground: str


_PLAIN: Final = _Ink((), "39", "49")


class Pen:
    """Writes only changes of style. Textual sends a full style before each text and a reset after it, 41 bytes in true
    colour.
    """

    def __init__(self, colours: ColorSystem) -> None:
        self._colours = colours
        self._ink: _Ink | None = None
        """The terminal's current style; None if another writer may have changed it."""

    def write(self, segments: Iterable[Segment]) -> Iterable[str]:
        """Only Textual makes control segments. Links are drawn as text: their addresses could come from data."""
        for text, style, control in segments:
            if control:
                yield text
                self._ink = None  # its effect on the colours is not known
            else:
                yield self._change_to(_PLAIN if style is None else _ink(style, self._colours))
                yield _drawable(text)

    def _change_to(self, ink: _Ink) -> str:
        before, self._ink = self._ink, ink
        if before == ink:
            return ""
        if before is None or before.attributes != ink.attributes:
            return f"\x1b[{';'.join(('0', *ink.attributes, *_unless('39', ink.colour), *_unless('49', ink.ground)))}m"
        changes = (*_unless(before.colour, ink.colour), *_unless(before.ground, ink.ground))
        return f"\x1b[{';'.join(changes)}m"


def _drawable(text: str) -> PlainText:
    """Clean a text and keep the width with which it was laid out, so that what follows keeps its place."""
    plain = clean(text)
    return plain if plain == text else clean(set_cell_size(plain, cell_len(text)))


def _unless(known: str, code: str) -> tuple[str, ...]:
    return () if code == known else (code,)


@lru_cache(maxsize=1024)
def _ink(style: Style, colours: ColorSystem) -> _Ink:
    attributes = tuple(code for name, code in _ATTRIBUTES if getattr(style, name))
    return _Ink(attributes, _code(style.color, colours, "39"), _code(style.bgcolor, colours, "49", foreground=False))


def _code(colour: Color | None, colours: ColorSystem, default: str, *, foreground: bool = True) -> str:
    return default if colour is None else ";".join(colour.downgrade(colours).get_ansi_codes(foreground=foreground))
