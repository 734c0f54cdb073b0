"""The signs of the console, each with its ASCII replacement, and texts cut to a width with an ellipsis."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Final

from rich.cells import cell_len, set_cell_size

if TYPE_CHECKING:
    from collections.abc import Mapping


STATE_GLYPHS: Final[Mapping[str, tuple[str, str]]] = {
    "PENDING": ("·", "."),
    "CLAIMED": ("◔", "o"),
    "RUNNING": ("▶", ">"),
    "COMPLETED": ("✓", "+"),
    "FAILED": ("✗", "x"),
    "CANCELLED": ("⊘", "-"),
    "EXPIRED": ("†", "!"),
    "RETRY": ("↻", "~"),
    "INTERRUPTED": ("‖", "="),
}
"""The sign and its ASCII replacement for every task status and the two derived states. No sign is wide or coloured on
any terminal, as hourglasses and other emoji are.
"""

FLOW_GLYPHS: Final[Mapping[str, tuple[str, str]]] = {
    "READY": ("○", "o"),
    "ENQUEUED": STATE_GLYPHS["CLAIMED"],
    "SKIPPED": STATE_GLYPHS["CANCELLED"],
    "PAUSED": STATE_GLYPHS["INTERRUPTED"],
    "PRUNED": ("∅", "_"),
}
"""The signs of other states: nodes, workflows, runs of a schedule. Some are also signs of tasks, but no list shows
both.
"""

_UNKNOWN_STATE: Final = ("?", "?")


@dataclass(frozen=True, slots=True)
class Glyphs:
    """A set of signs, UNICODE or ASCII. Each sign is one cell wide in both, including `ellipsis`."""

    ascii: bool
    ellipsis: str
    cursor: str
    mark: str
    heart: str
    missed: str
    """A missing heartbeat."""
    up: str
    down: str
    enter: str
    alarm: str
    """▲ before a subject that needs action."""
    warning: str
    crumb: str
    """Separator of a context and its database."""
    dot: str
    """Separator of two facts on one line."""
    dash: str
    """A missing value that the reader should notice."""
    times: str
    folded: str
    unfolded: str
    rule: str
    stroke: str
    """A filled cell of a bar in a list."""
    bar: str
    """The left edge of a text that is being typed."""
    waiting: str
    claimed: str
    running: str
    backoff: str
    ended: str

    def state(self, state: str) -> str:
        """Return the sign of a status or state."""
        return (STATE_GLYPHS.get(state) or FLOW_GLYPHS.get(state, _UNKNOWN_STATE))[self.ascii]

    def state_text(self, state: str, more: str = "") -> str:
        """Return a text like `▶ running` or `↻ retry 41s`."""
        words = f"{self.state(state)} {state.lower()}"
        return f"{words} {more}" if more else words

    def text(self, words: str) -> str:
        """Return the text in the characters of this set: signs are replaced, others become a question mark."""
        if not self.ascii or words.isascii():
            return words
        return words.translate(_TWINS).encode("ascii", "replace").decode("ascii")


UNICODE: Final = Glyphs(
    ascii=False,
    ellipsis="…",
    cursor="▌",
    mark="●",
    heart="♥",
    missed="·",
    up="↑",
    down="↓",
    enter="↵",
    alarm="▲",
    warning="⚠",
    crumb="▸",
    dot="·",
    dash="–",
    times="×",
    folded="▸",
    unfolded="▾",
    rule="─",
    stroke="━",
    bar="▏",
    waiting="░",
    claimed="▒",
    running="█",
    backoff="┄",
    ended="│",
)

ASCII: Final = Glyphs(
    ascii=True,
    ellipsis="~",
    cursor="|",
    mark="*",
    heart="B",
    missed=".",
    up="^",
    down="v",
    enter="<",
    alarm="!",
    warning="!",
    crumb=">",
    dot=".",
    dash="-",
    times="x",
    folded="+",
    unfolded="-",
    rule="-",
    stroke="=",
    bar="|",
    waiting=".",
    claimed=":",
    running="#",
    backoff="-",
    ended="|",
)


def glyphs(*, ascii_only: bool) -> Glyphs:
    """Return the ASCII set for `--ascii`, otherwise the usual one."""
    return ASCII if ascii_only else UNICODE


def _twins() -> dict[int, str]:
    """Return every sign with its replacement, including box corners and superscripts, which appear in texts only."""
    signs = (
        dict(STATE_GLYPHS.values()) | dict(FLOW_GLYPHS.values()) | dict(zip("┌┐└┘├┤┬┴┼═║", "+++++++++=|", strict=True))
    )
    signs |= dict(zip("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789", strict=True)) | {"→": ">", "←": "<", "≈": "~", "◌": "o"}
    for field in fields(Glyphs):
        if field.name != "ascii":
            signs.setdefault(getattr(UNICODE, field.name), getattr(ASCII, field.name))
    # A wide sign keeps its two places, so that the text beside it does not move.
    return {ord(sign): twin.ljust(cell_len(sign)) for sign, twin in signs.items()}


_TWINS: Final = _twins()


def fit(text: str, width: int, glyphs: Glyphs, *, right: bool = False) -> str:
    """Return the text in exactly `width` cells: padded, or cut with an ellipsis. `text` must be clean."""
    text = cut(text, width, glyphs)
    padding = " " * (width - cell_len(text))
    return padding + text if right else text + padding


def cut_middle(text: str, width: int, glyphs: Glyphs) -> str:
    """Cut the middle to fit this width: names of steps often differ only in their last characters."""
    if cell_len(text) <= width:
        return text
    end = ""
    while end != text and cell_len(text[-len(end) - 1 :]) <= (width - 1) // 2:
        end = text[-len(end) - 1 :]
    return set_cell_size(text, width - 1 - cell_len(end)) + glyphs.ellipsis + end if width > 0 else ""


def cut_start(text: str, width: int, glyphs: Glyphs) -> str:
    """Cut the beginning to fit this width: ids differ at their end, and so do the pods of one deployment."""
    if cell_len(text) <= width:
        return text
    while cell_len(text) >= width and text:
        text = text[1:]
    return glyphs.ellipsis + text if width > 0 else ""


def cut(text: str, width: int, glyphs: Glyphs) -> str:
    """Cut the end to fit this width. If something is cut, the last character is an ellipsis."""
    if cell_len(text) <= width:
        return text
    return set_cell_size(text, width - 1) + glyphs.ellipsis if width > 0 else ""
