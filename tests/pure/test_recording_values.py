"""Snapshots come back from a recording as they were, and nothing else comes out of a file."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

import pytest
from health_scene import a_finding, a_glance, a_queue, a_report
from story_scene import action, row, stored, story, waiting

from horsies.config.recovery import RecoveryConfig
from horsies.display.payload import HIDDEN, POSITIONAL, Masks
from horsies.domain import damage as damaged_json
from horsies.domain.damage import DamagedNumber, DamagedText, DamagedTime
from horsies_tui.health.windows import USUAL
from horsies_tui.look.damage import damaged_words
from horsies_tui.recording.codec import Decoder, Encoder
from horsies_tui.recording.hiding import Hiding
from horsies_tui.recording.recorded_classes import NotAValue

SECRET = "DE89370400440532013000"


class Holder(NamedTuple):
    """A row with one field."""

    value: Any


def as_is(value: Any) -> Any:
    return value


def written(encoder: Encoder, value: Any) -> str:
    """What the file has of this value: its JSON, with the classes and objects that it needs."""
    told = encoder.encode(value)
    classes, objects = encoder.take()
    return json.dumps([classes, [json.loads(each) for each in objects], told])


def read(*texts: str) -> list[Any]:
    decoder, values = Decoder(), []
    for text in texts:
        classes, objects, told = json.loads(text)
        decoder.learn(classes, objects)
        values.append(decoder.decode(told))
    return values


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        -3,
        0.25,
        float("-inf"),
        "ü\n{}[]",
        datetime(2026, 11, 19, 14, 5, 0, 123456, UTC),
        timedelta(days=-1, microseconds=7),
        UUID(int=7),
        (),
        ("a", ("b",)),
        ["a", 1],
        frozenset({"b", "a"}),
        {"a": {1: (None,)}},
        row(),
        story(audit=(action(3.0),)),
        waiting(),
        a_glance(a_finding(), queues=(a_queue(due=3),)),
        a_report(a_finding()),
        RecoveryConfig(),
        USUAL,
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_value_comes_back_as_it_was(value: Any) -> None:
    (back,) = read(written(Encoder(as_is), value))
    assert back == value
    assert type(back) is type(value)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (DamagedTime.of(2**63 - 1), "infinity"),
        (DamagedTime.of(-(2**60)), DamagedTime.of(-(2**60)).stored),
        (DamagedNumber.of(float("nan")), "nan"),
        (DamagedText.of("a damaged definition", SECRET), "not of its type"),
        (damaged_json.json_map(f'["{SECRET}"]'), "not of its type"),
        (damaged_json.texts([SECRET, None]), "not of its type"),
    ],
)
def test_a_damaged_value_comes_back_damaged_and_without_a_text_that_may_be_masked(value: Any, shown: str) -> None:
    told = written(Encoder(as_is), value)
    (back,) = read(told)
    assert (back, type(back)) == (value, type(value))
    assert damaged_words(Holder(value)) == {"value": shown}
    assert damaged_words(Holder(back)) == {"value": shown}
    assert SECRET not in told or SECRET in value


def test_an_unchanged_row_costs_a_number() -> None:
    encoder, rows = Encoder(as_is), tuple(row(id=f"task-{number}") for number in range(100))
    first, second = written(encoder, rows), written(encoder, (replace(rows[0], status="RUNNING"), *rows[1:]))
    equal = written(encoder, tuple(replace(each) for each in rows))
    assert read(first, second, equal) == [rows, (replace(rows[0], status="RUNNING"), *rows[1:]), rows]
    assert len(first) > 30_000
    assert len(second) < 2_500
    assert len(equal) < 2_000


@pytest.mark.parametrize(
    "told",
    [
        ["o", 0],
        ["o", -1],
        ["e", "Path", "cwd"],
        ["e", "Liveness", "__class__"],
        ["u", "../../../etc/passwd"],
        ["t", 10**30],
        ["d", 10**30],
        ["f", "1e5"],
        ["k", "no such finding"],
        ["s", [["l", []]]],
        ["m", [["a"]]],
        ["system", "true"],
        {"py/object": "os.system"},
        [],
    ],
    ids=str,
)
def test_what_no_encoder_writes_is_refused(told: Any) -> None:
    with pytest.raises(NotAValue):
        Decoder().decode(told)


@pytest.mark.parametrize(
    ("classes", "made"),
    [
        ([["Popen", ["args"]]], [0, ["l", ["true"]]]),
        ([["Search", ["kinds", "find"]]], [0, ["(", []], None]),
        ([["Count", ["number", "at_least"]]], [0, "three", False]),
        ([["Count", ["number", "at_leas"]]], [0, 3, False]),
        ([["Count", ["at_least"]]], [0, False]),
        ([["Count", ["number"]]], [0, 3, 4]),
        ([], ["RecoveryConfig", '{"heartbeat_retention_hours": "x"}']),
        ([], ["Path", '"/"']),
        ([], [7]),
        ([["Cursor", ["time", "id"]]], [0, None, "a"]),
    ],
    ids=str,
)
def test_an_object_that_is_none_of_ours_is_refused(classes: list[Any], made: list[Any]) -> None:
    decoder = Decoder()
    decoder.learn(classes, [made])
    with pytest.raises(NotAValue):
        decoder.decode(["o", 0])


def test_values_that_are_too_deep_in_each_other_are_refused() -> None:
    told: Any = None
    for _ in range(200):
        told = ["(", [told]]
    with pytest.raises(NotAValue, match="deep"):
        Decoder().decode(told)
    circle = Decoder()
    circle.learn([["Ambiguous", ["text", "ids", "more"]]], [[0, ["o", 0], ["(", []], False]])
    with pytest.raises(NotAValue, match="deep"):
        circle.decode(["o", 0])


def test_a_thing_that_is_no_value_is_not_written() -> None:
    with pytest.raises(NotAValue, match="object"):
        Encoder(as_is).encode(object())


@pytest.mark.parametrize("names", [{"iban"}, {"IB*"}, {"account"}])
def test_masked_arguments_are_masked_in_the_file(names: set[str]) -> None:
    nested = {"order": 42, "account": json.dumps({"iban": SECRET}), "iban": SECRET}
    told = {"iban": SECRET, "account": {"iban": SECRET}}
    shown = story(kwargs=stored(nested), result=stored({"ok": told}), options=stored(nested), args=None)
    text = written(Encoder(Hiding(Masks(frozenset(names | {"iban"})))), shown)
    assert SECRET not in text
    assert HIDDEN in text
    (back,) = read(text)
    assert json.loads(back.kwargs.text)["order"] == 42
    assert SECRET in written(Encoder(Hiding(Masks())), shown)


def test_positional_arguments_and_texts_that_cannot_be_searched_are_hidden_whole() -> None:
    shown = story(args=stored([SECRET]), kwargs=stored(f"no json {SECRET}"))
    assert SECRET not in written(Encoder(Hiding(Masks(frozenset({POSITIONAL})))), shown)


def test_the_beginning_of_a_long_text_is_masked_too() -> None:
    text = json.dumps({"iban": SECRET, "lines": "x" * 100})[:-20]
    shown = story(kwargs=replace(stored(text), cut=True, size=9_000), args=None)
    assert SECRET not in written(Encoder(Hiding(Masks(frozenset({"iban"})))), shown)


def test_the_states_of_the_audit_trail_are_masked() -> None:
    shown = replace(action(3.0), before_state={"kwargs": json.dumps({"iban": SECRET})})
    assert SECRET not in written(Encoder(Hiding(Masks(frozenset({"iban"})))), shown)
