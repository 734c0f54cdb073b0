"""Every tone is readable on every background it is used on, and the themes have the names of the options."""

from __future__ import annotations

import re
import unicodedata

import pytest
from rich.cells import cell_len
from textual.color import Color

from horsies_tui.look import themes
from horsies_tui.look.glyphs import FLOW_GLYPHS, STATE_GLYPHS
from horsies_tui.look.tones import OWN, Tone, state_tone, tone_css

READABLE = 4.5
"""The contrast that WCAG AA requires of text."""
TOKENS = dict(re.findall(r"> \.(\S+) \{ color: \$(\S+);", tone_css("Thing")))
OURS = {"horsies-dark": ":dark", "horsies-light": ":light"}
STATES = sorted({*STATE_GLYPHS, *FLOW_GLYPHS})


def colour_of(tone: str, theme: str) -> str:
    """The colour of a tone as the rules of its widget give it."""
    colours = themes.THEMES[theme].to_color_system().generate()
    return OWN[Tone(tone)][OURS[theme]] if tone in OWN else colours[TOKENS[tone]]


def brightness(colour: Color) -> float:
    parts = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in colour.normalized]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]


def contrast(one: Color, other: Color) -> float:
    darker, lighter = sorted((brightness(one), brightness(other)))
    return (lighter + 0.05) / (darker + 0.05)


@pytest.mark.parametrize("name", OURS)
@pytest.mark.parametrize("ground", ["background", "panel", "block-cursor-background"])
@pytest.mark.parametrize(
    "token", ["text", "foreground", "text-muted", "text-accent", "text-error", "text-warning", *Tone]
)
def test_text_can_be_read(name, ground, token):
    colours = themes.THEMES[name].to_color_system().generate()
    colour = colour_of(token, name) if isinstance(token, Tone) else colours[token]
    if colour.startswith("auto"):
        return
    assert contrast(Color.parse(colour), Color.parse(colours[ground])) >= READABLE


@pytest.mark.parametrize("theme", OURS)
def test_states_that_must_not_be_confused_differ_in_colour(theme):
    names = ("RUNNING", "CLAIMED", "COMPLETED", "FAILED", "RETRY", "INTERRUPTED", "CANCELLED")
    assert len({colour_of(str(state_tone(state)), theme) for state in names}) == len(names)


@pytest.mark.parametrize("theme", OURS)
def test_purple_is_the_colour_of_no_state(theme):
    purple = themes.THEMES[theme].accent
    assert {state for state in STATES if colour_of(str(state_tone(state)), theme) == purple} == set()
    assert {str(state_tone(state)) for state in STATES} <= TOKENS.keys()


@pytest.mark.parametrize("theme", OURS)
def test_the_values_of_json_look_like_no_state(theme):
    states = {colour_of(str(state_tone(state)), theme) for state in STATES}
    assert states.isdisjoint(colour_of(tone, theme) for tone in (Tone.STRING, Tone.NUMBER))


@pytest.mark.parametrize("state", STATES)
def test_the_sign_of_a_state_is_one_place_wide_and_no_emoji(state):
    sign, plain = (STATE_GLYPHS | FLOW_GLYPHS)[state]
    assert cell_len(sign) == len(sign) == len(plain) == 1
    assert plain.isascii()
    assert unicodedata.east_asian_width(sign) != "W"
    assert sign not in "⌚⌛⏩⏳⏸⏯⏺"


def test_the_ansi_theme_has_only_the_terminals_own_colours():
    colours = themes.THEMES[themes.ANSI].to_color_system().generate()
    assert {colours[token] for token in TOKENS.values()} <= {
        f"ansi_{name}" for name in ("default", "blue", "cyan", "green", "yellow", "red", "magenta")
    } | {"ansi_default 50%"}
