"""The themes: ours in dark and light, the terminal's own sixteen colours, and those of Textual."""

from __future__ import annotations

from typing import Final

from textual.theme import BUILTIN_THEMES, Theme

_DARK: Final = Theme(
    name="horsies-dark",
    dark=True,
    background="#0f1317",
    surface="#0f1317",
    panel="#1a2128",
    foreground="#d7dde3",
    primary="#6cb0f2",
    secondary="#5fc4c4",
    success="#74c07a",
    warning="#e2b455",
    error="#f2766d",
    accent="#c792f0",
    variables={
        "text": "#d7dde3",
        "text-muted": "#929ca6",
        "text-disabled": "#626c76",
        "block-cursor-background": "#25323f",
        "block-cursor-foreground": "#d7dde3",
        "block-cursor-text-style": "none",
        "border": "#3a4550",
        "footer-key-foreground": "#6cb0f2",
        "input-selection-background": "#2f4b66",
    },
)

_LIGHT: Final = Theme(
    name="horsies-light",
    dark=False,
    background="#fbfbf9",
    surface="#fbfbf9",
    panel="#eeeeea",
    foreground="#20262c",
    primary="#0b57a8",
    secondary="#0a6a70",
    success="#1b6b2d",
    warning="#8a5600",
    error="#b3261e",
    accent="#7a2fb0",
    variables={
        "text": "#20262c",
        "text-muted": "#5c656e",
        "text-disabled": "#868e96",
        "block-cursor-background": "#d9e6f3",
        "block-cursor-foreground": "#20262c",
        "block-cursor-text-style": "none",
        "border": "#c4c8cb",
        "footer-key-foreground": "#0b57a8",
        "input-selection-background": "#b9d4ee",
    },
)

_ANSI: Final = Theme(
    name="ansi",
    ansi=True,
    primary="ansi_blue",
    secondary="ansi_cyan",
    success="ansi_green",
    warning="ansi_yellow",
    error="ansi_red",
    accent="ansi_magenta",
    foreground="ansi_default",
    background="ansi_default",
    surface="ansi_default",
    panel="ansi_default",
    boost="ansi_default",
    variables={
        # Textual's own rules use these two names, which only its own themes define.
        "ansi-background": "ansi_default",
        "ansi-foreground": "ansi_default",
        "border": "ansi_bright_black",
        "footer-key-foreground": "ansi_blue",
        "input-cursor-background": "ansi_default",
        "input-cursor-foreground": "ansi_default",
        "block-cursor-background": "ansi_default",
        "block-cursor-foreground": "ansi_default",
        "block-cursor-text-style": "reverse",
    },
)

_TEXTUALS: Final = tuple(theme for theme in BUILTIN_THEMES.values() if not theme.ansi)
THEMES: Final = {theme.name: theme for theme in (_DARK, _LIGHT, _ANSI, *_TEXTUALS)}
DEFAULT: Final = _DARK.name
ANSI: Final = _ANSI.name
"""The theme for 16 colours and NO_COLOR, selected before the App is created; otherwise Textual would turn true colours
into greys.
"""
