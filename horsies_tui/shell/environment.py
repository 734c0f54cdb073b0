"""The terminal's abilities, read from the environment before Textual is imported, which decides at import."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from horsies.domain.errors import ConfigurationError, ErrorCode

if TYPE_CHECKING:
    from collections.abc import Mapping

SERVED: Final = "HORSIES_SERVED"
"""Environment variable of a console in a browser tab, whose input and output are pipes to the server."""
DARK: Final = "horsies-dark"
LIGHT: Final = "horsies-light"
ANSI: Final = "ansi"
TEXTUALS: Final = [
    "textual-dark",
    "textual-light",
    "nord",
    "gruvbox",
    "catppuccin-mocha",
    "dracula",
    "tokyo-night",
    "monokai",
    "flexoki",
    "catppuccin-latte",
    "catppuccin-frappe",
    "catppuccin-macchiato",
    "solarized-light",
    "solarized-dark",
    "rose-pine",
    "rose-pine-moon",
    "rose-pine-dawn",
    "atom-one-dark",
    "atom-one-light",
]
THEMES: Final = (DARK, LIGHT, ANSI, *TEXTUALS)
"""The names in look/themes.py, which must not be imported yet."""


def why_unfit(environ: Mapping[str, str], *, is_terminal: bool) -> str | None:
    """Return why the console cannot be drawn here, or None."""
    if environ.get(SERVED):
        return None
    if not is_terminal:
        return "horsies tui needs a terminal, but its input or output is not a terminal"
    if environ.get("TERM", "dumb") in ("dumb", ""):
        return "horsies tui needs a terminal that can move its cursor, but TERM is dumb"
    return None


def wants_ascii(environ: Mapping[str, str]) -> bool:
    """Return whether the locale rules out UTF-8. Without a locale, UTF-8 is assumed."""
    ctype = environ.get("LC_CTYPE", "")
    if ctype == "C.UTF-8" and environ.get("LANG", "") in ("C", "POSIX"):
        ctype = ""  # set by Python itself when it finds LANG=C
    locale = environ.get("LC_ALL") or ctype or environ.get("LANG", "")
    return bool(locale) and "utf8" not in locale.lower().replace("-", "")


def fitting_theme(environ: Mapping[str, str], wished: str | None) -> str:
    """Return the config file's theme, else one that suits the terminal; with NO_COLOR the terminal's own colours."""
    if environ.get("NO_COLOR"):
        return ANSI
    if wished is not None:
        return wished
    if environ.get("COLORTERM") not in ("truecolor", "24bit") and "256" not in environ.get("TERM", ""):
        return ANSI
    ground = environ.get("COLORFGBG", "").rpartition(";")[2]
    return LIGHT if ground in ("7", "15") else DARK


def unknown_theme(name: str) -> ConfigurationError | None:
    """Return the error for a theme that does not exist; None if it exists."""
    if name in THEMES:
        return None
    return ConfigurationError(
        f"unknown theme {name!r}", code=ErrorCode.CLI_INVALID_ARGS, help_text=f"choose one of {', '.join(THEMES)}"
    )


def for_textual(environ: Mapping[str, str], *, fps: int) -> dict[str, str | None]:
    """Return the environment variables to set before Textual is imported; None removes a variable."""
    return {
        "TEXTUAL_FPS": str(fps),
        # An animated page sends 25 times as much as a plain one: 324 kB instead of 12.8 kB.
        "TEXTUAL_ANIMATIONS": "none",
        "TEXTUAL_SMOOTH_SCROLL": "0",
        # no-color.org defines an empty value as unset; Textual treats it as set.
        "NO_COLOR": environ.get("NO_COLOR") or None,
    }
