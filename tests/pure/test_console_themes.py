"""Every tone is readable on every background it is used on, and the themes have the names of the options."""

from __future__ import annotations

import re

import pytest
from textual.color import Color

from horsies_tui.look import themes
from horsies_tui.look.glyphs import STATE_GLYPHS
from horsies_tui.look.tones import state_tone, tone_css
from horsies_tui.shell import environment

READABLE = 4.5
"""The contrast that WCAG AA requires of text."""
TOKENS = dict(re.findall(r"> \.(\S+) \{ color: \$(\S+);", tone_css("Thing")))


def brightness(colour: Color) -> float:
    parts = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in colour.normalized]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]


def contrast(one: Color, other: Color) -> float:
    darker, lighter = sorted((brightness(one), brightness(other)))
    return (lighter + 0.05) / (darker + 0.05)


@pytest.mark.parametrize("name", ["horsies-dark", "horsies-light"])
@pytest.mark.parametrize("ground", ["background", "block-cursor-background"])
@pytest.mark.parametrize("token", sorted({*TOKENS.values(), "text", "foreground"}))
def test_text_can_be_read(name, ground, token):
    colours = themes.THEMES[name].to_color_system().generate()
    assert contrast(Color.parse(colours[token]), Color.parse(colours[ground])) >= READABLE


def test_states_that_must_not_be_confused_differ_in_colour():
    colours = [TOKENS[str(state_tone(state))] for state in ("RUNNING", "COMPLETED", "FAILED", "RETRY", "INTERRUPTED")]
    assert len(set(colours)) == 5
    assert {str(state_tone(state)) for state in STATE_GLYPHS} <= TOKENS.keys()


def test_the_ansi_theme_has_only_the_terminals_own_colours():
    colours = themes.THEMES[themes.ANSI].to_color_system().generate()
    assert {colours[token] for token in TOKENS.values()} <= {
        f"ansi_{name}" for name in ("default", "blue", "cyan", "green", "yellow", "red", "magenta")
    } | {"ansi_default 50%"}


def test_an_option_can_name_every_theme():
    assert set(environment.THEMES) == themes.THEMES.keys()
    assert environment.DARK == themes.DEFAULT
    assert environment.ANSI == themes.ANSI
