"""Signs, their ASCII replacements, and making any text safe for one line of a terminal."""

from __future__ import annotations

import unicodedata
from dataclasses import fields

import pytest
from hypothesis import given, strategies as st
from rich.cells import cell_len

from horsies.domain.plain_text import clean
from horsies.domain.states import TaskStatus
from horsies_tui.look.glyphs import ASCII, STATE_GLYPHS, UNICODE, Glyphs, cut, fit, glyphs
from horsies_tui.look.tones import TONES, state_tone, tone_css

SIGNS = [field.name for field in fields(Glyphs) if field.name != "ascii"]


def test_every_state_has_its_own_sign_word_and_tone():
    assert STATE_GLYPHS.keys() == {status.value for status in TaskStatus} | {"RETRY", "INTERRUPTED"}
    for both in zip(*STATE_GLYPHS.values(), strict=True):
        assert len(set(both)) == len(STATE_GLYPHS)
    assert len({state_tone(state) for state in STATE_GLYPHS}) == len(STATE_GLYPHS)


def test_a_state_is_written_as_sign_and_word():
    assert UNICODE.state_text("RUNNING") == "▶ running"
    assert glyphs(ascii_only=True).state_text("RETRY", "41s") == "~ retry 41s"
    assert UNICODE.state_text("NEW_IN_2030") == "? new_in_2030"
    assert state_tone("NEW_IN_2030") is None


@pytest.mark.parametrize("name", SIGNS)
def test_every_sign_and_its_twin_take_one_place(name):
    assert cell_len(getattr(UNICODE, name)) == cell_len(getattr(ASCII, name)) == 1
    assert getattr(ASCII, name).isascii()


@given(st.text())
def test_ascii_is_ascii_and_no_letter_is_lost(words):
    assert ASCII.text(words).isascii()
    assert len(ASCII.text(words)) >= len(words)
    assert UNICODE.text(words) == words


def test_signs_in_a_sentence_become_their_twins():
    assert ASCII.text("✗ failed · 3× ▸ ñ") == "x failed . 3x > ?"


def test_the_dot_between_two_facts_is_the_same_sign_wherever_it_comes_from():
    assert ASCII.text(f"1 gone {UNICODE.dot} 2 late") == f"1 gone {ASCII.dot} 2 late" == "1 gone . 2 late"


def test_the_wide_sign_keeps_its_place_in_ascii():
    assert ASCII.text("† x ‖ y") == "! x = y"


@given(st.text())
def test_what_is_clean_has_nothing_that_a_terminal_obeys(text):
    assert not [char for char in clean(text) if unicodedata.category(char) in ("Cc", "Cf", "Zl", "Zp", "Cs")]


@pytest.mark.parametrize(
    ("dirty", "harmless"),
    [
        ("a\x1b[31mb", "a [31mb"),
        ("two\nlines\ttab", "two lines tab"),
        ("ord\u202eer", "order"),
        ("no\u00a0break", "no break"),
        ("❤\ufe0f", "❤"),
        ("zero\u200bwidth", "zerowidth"),
        ("c\u009b31m1", "c 31m1"),
        ("lines\u2028and\u2029paragraphs", "lines and paragraphs"),
        ("hid\U000e0100den", "hidden"),
        ("ring\u20dd", "ring"),
        ("th\U0001f44d\U0001f3fdumb", "th\U0001f44dumb"),
        ("sur\udc9brogate", "sur rogate"),
    ],
)
def test_control_characters_are_made_harmless(dirty, harmless):
    assert clean(dirty) == harmless


def test_no_character_is_harmless_alone_and_harmful_among_others():
    """The way for texts that need no change agrees with the one for the others, for each character that there is."""
    wrong = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Me")
    every = "".join(map(chr, (*range(0x30000), *range(0xE0000, 0xE1000), *range(0x10FF00, 0x110000))))
    assert [char for char in every if clean(char) == char and unicodedata.category(char) in wrong] == []
    assert clean(every) == "".join(clean(char) for char in every)


@given(st.text(), st.integers(min_value=0, max_value=40), st.booleans())
def test_a_cell_is_exactly_as_wide_as_its_column(text, width, right):
    for signs in (UNICODE, ASCII):
        assert cell_len(fit(clean(text), width, signs, right=right)) == width


def test_a_cut_says_so():
    assert cut("RATE_LIMITED", 10, UNICODE) == "RATE_LIMI…"
    assert cut("RATE_LIMITED", 10, ASCII) == "RATE_LIMI~"
    assert cut("RATE_LIMITED", 12, UNICODE) == "RATE_LIMITED"
    assert cut("日本語", 4, UNICODE) == "日 …"
    assert fit("12", 4, UNICODE, right=True) == "  12"


def test_each_tone_has_a_rule_for_the_widget_that_asks():
    css = tone_css("Thing")
    assert all(f"Thing > .{tone} {{ color: $" in css for tone in TONES)
