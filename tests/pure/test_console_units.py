"""Durations, counts, sizes and times as the console writes them, signs, safe text, and tones that can be read."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import fields
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given, strategies as st
from rich.cells import cell_len
from textual.color import Color

from horsies.domain.plain_text import clean
from horsies.domain.states import TaskStatus
from horsies_tui.look import themes
from horsies_tui.look.glyphs import ASCII, FLOW_GLYPHS, STATE_GLYPHS, UNICODE, Glyphs, cut, fit, glyphs
from horsies_tui.look.tones import OWN, Tone, state_tone, tone_css
from horsies_tui.look.units import (
    AGE_WIDTH,
    LENGTH_WIDTH,
    age,
    count,
    date_and_time,
    length,
    moment_text,
    number,
    size,
    ticking,
    time_of_day,
    zone_of,
)
from horsies_tui.tasks.menus import NoMoment, read_moment

SECONDS = st.floats(min_value=0, max_value=9_999 * 86_400, allow_nan=False)
NOON = datetime(2026, 11, 18, 12, 4, 31, 900_000, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0ms"),
        (0.008, "8ms"),
        (0.25, "0.2s"),
        (4.19, "4.1s"),
        (59.99, "59.9s"),
        (60, "1m00s"),
        (372, "6m12s"),
        (599, "9m59s"),
        (855, "14m"),
        (11_100, "3h05m"),
        (50_400, "14h"),
        (187_200, "2d4h"),
        (1_036_800, "12d"),
        (-3, "0ms"),
    ],
)
def test_a_length_has_the_units_that_it_needs(seconds, text):
    assert length(timedelta(seconds=seconds)) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0s"), (3.8, "3s"), (59.9, "59s"), (60, "1m00s"), (379.9, "6m10s"), (3_599, "59m")]
)
def test_what_ticks_moves_each_second_and_then_each_ten(seconds, text):
    assert ticking(timedelta(seconds=seconds)) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(4.2, "4s"), (61, "1m"), (3_599, "59m"), (86_399, "23h"), (90_000_000, "1041d")]
)
def test_an_age_is_one_number(seconds, text):
    assert age(timedelta(seconds=seconds)) == text


def test_where_there_is_nothing_nothing_is_written():
    assert [write(None) for write in (length, ticking, age, size, time_of_day, date_and_time)] == [""] * 6
    assert moment_text(None, NOON) == ""


@given(SECONDS)
def test_no_length_is_wider_than_its_column(seconds):
    span = timedelta(seconds=seconds)
    assert len(length(span)) <= LENGTH_WIDTH
    assert len(ticking(span)) <= LENGTH_WIDTH
    assert len(age(span)) <= AGE_WIDTH + 1
    assert len(age(min(span, timedelta(days=999)))) <= AGE_WIDTH


@given(SECONDS, st.integers(min_value=1, max_value=9))
def test_above_a_minute_a_running_length_stands_still_for_ten_seconds(seconds, later):
    start = max(60, int(seconds) // 10 * 10)
    assert ticking(timedelta(seconds=start)) == ticking(timedelta(seconds=start + later))


@pytest.mark.parametrize(
    ("many", "text"),
    [
        (218, "218"),
        (9_999, "9,999"),
        (12_999, "12 k"),
        (999_999, "999 k"),
        (1_290_000, "1.2 M"),
        (34_000_000_000, "34 G"),
        (5_600_000_000_000, "5.6 T"),
        (1_200_000_000_000_000, "1,200 T"),
    ],
)
def test_a_count_is_exact_as_long_as_it_is_short_and_then_never_too_high(many, text):
    assert count(many) == text


def test_a_bounded_count_says_that_there_is_more():
    assert count(10_001, at_least=True) == "10 k+"
    assert number(1_234_567) == "1,234,567"


@pytest.mark.parametrize(("many", "text"), [(512, "512 B"), (1_500, "1.5 kB"), (412_000_000, "412 MB")])
def test_sizes_are_decimal(many, text):
    assert size(many) == text


def test_a_moment_names_its_zone():
    there = timezone(timedelta(hours=2))
    assert time_of_day(NOON) == "12:04:31Z"
    assert time_of_day(NOON, there) == "14:04:31+02"
    assert time_of_day(NOON, timezone(-timedelta(hours=9, minutes=30))) == "02:34:31-0930"
    assert date_and_time(NOON, there) == "2026-11-18 14:04:31+02"


def test_a_moment_of_another_day_has_its_date():
    assert moment_text(NOON - timedelta(hours=1), NOON) == "11:04:31Z"
    assert moment_text(NOON - timedelta(hours=13), NOON) == "2026-11-17 23:04:31Z"
    assert moment_text(NOON - timedelta(hours=1), NOON, timezone(timedelta(hours=12))) == "2026-11-18 23:04:31+12"


def test_local_time_is_this_machines():
    assert zone_of(utc=True) is UTC
    assert time_of_day(NOON, zone_of(utc=False))[:8] == f"{NOON.astimezone():%H:%M:%S}"


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


MIDDAY = datetime(2026, 11, 18, 12, 0, tzinfo=UTC)
EAST = timezone(timedelta(hours=2))


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("11:30", "2026-11-18T11:30Z"),
        ("14:05", "2026-11-17T14:05Z"),
        ("9:05:07", "2026-11-18T09:05:07Z"),
        ("2h", "2026-11-18T10:00Z"),
        (" 1h30m ago ", "2026-11-18T10:30Z"),
        ("2 d", "2026-11-16T12:00Z"),
        ("2026-11-01", "2026-11-01T00:00Z"),
        ("2026-11-01 08:15", "2026-11-01T08:15Z"),
        ("2026-11-01T08:15+02:00", "2026-11-01T06:15Z"),
    ],
)
def test_what_is_typed_is_a_moment(text: str, moment: str) -> None:
    assert read_moment(text, MIDDAY) == datetime.fromisoformat(moment)


def test_without_a_zone_the_operators_is_meant() -> None:
    assert read_moment("13:30", MIDDAY, EAST) == datetime(2026, 11, 18, 11, 30, tzinfo=UTC)
    assert read_moment("2026-11-18 13:30", MIDDAY, EAST) == datetime(2026, 11, 18, 11, 30, tzinfo=UTC)
    assert read_moment("11:30z", MIDDAY, EAST) == datetime(2026, 11, 18, 11, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    "text", ["", "5", "noon", "25:00", "12:61", "2026-13-01", "-1h", "1h:2", "queue:mail", "1h 2x"]
)
def test_what_is_no_moment_is_told_with_what_would_be(text: str) -> None:
    with pytest.raises(NoMoment, match=r"14:05|there is no such time"):
        read_moment(text, MIDDAY)


@given(st.text(max_size=20))
def test_no_text_breaks_it(text: str) -> None:
    try:
        told: object = read_moment(text, MIDDAY).tzinfo
    except NoMoment as error:
        told = error.message
    assert told


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
