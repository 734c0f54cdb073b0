"""Stored values: the exact text of each kind, sets in one order, and that reading returns what was written."""

from __future__ import annotations

import json
from collections import OrderedDict, deque
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from types import MappingProxyType
from typing import Any, NamedTuple
from uuid import UUID

import pytest
from codec_models import (
    Aliased,
    Basket,
    Colour,
    IntBox,
    Level,
    Names,
    OldStyleColour,
    Order,
    Outer,
    Parcel,
    Priced,
    Shipment,
    Strict,
    load_args,
    load_kwargs,
    load_value,
)
from hypothesis import given, settings, strategies as st
from pydantic import BaseModel, field_serializer
from typing_extensions import TypedDict

from horsies.domain.codec import dump_args, dump_kwargs, dump_value
from horsies.domain.codec.conversion import conversion_of
from horsies.domain.codes import OperationalErrorCode
from horsies.domain.result import Ok
from horsies.domain.states import WorkflowStatus
from horsies.domain.tags import RESERVED
from horsies.domain.task_result import SubWorkflowSummary, TaskError, TaskResult

PLACED = datetime(2026, 11, 18, 6, 31, 6, tzinfo=UTC)
ORDER = Order(number=7, placed=PLACED)
PARCEL = Parcel(weight=3.0, due=date(2026, 2, 1))
SUMMARY = SubWorkflowSummary(WorkflowStatus.FAILED, None, 2, 1, 1, 0, "…")

CONTRACT = [
    (None, "null"),
    (True, "true"),
    (7, "7"),
    (1.5, "1.5"),
    ("ä\0\n", '"ä\\u0000\\n"'),
    (Colour.RED, '"red"'),
    (OldStyleColour.RED, '"red"'),
    (Level.LOW, "1"),
    (OperationalErrorCode.WORKER_CRASHED, '"WORKER_CRASHED"'),
    (datetime(2026, 1, 31, 8, tzinfo=UTC), '{"__datetime__":true,"value":"2026-01-31T08:00:00+00:00"}'),
    (date(2026, 1, 31), '{"__date__":true,"value":"2026-01-31"}'),
    (time(2, 30), '{"__time__":true,"value":"02:30:00"}'),
    (
        ORDER,
        '{"__pydantic_model__":true,"module":"codec_models","qualname":"Order",'
        '"data":{"number":7,"placed":"2026-11-18T06:31:06Z"}}',
    ),
    (
        PARCEL,
        '{"__dataclass__":true,"module":"codec_models","qualname":"Parcel",'
        '"data":{"weight":3.0,"due":{"__date__":true,"value":"2026-02-01"}}}',
    ),
    ({"a": 1, 2: [None]}, '{"a":1,"2":[null]}'),
    ((1, 2), "[1,2]"),
    (TaskResult(ok=42), '{"__task_result__":true,"ok":42,"err":null}'),
    (
        TaskError(error_code="CARD_DECLINED", data={"limit": 5}, message="no"),
        '{"__task_error__":true,"error_code":"CARD_DECLINED","data":{"limit":5},"message":"no"}',
    ),
    (
        SUMMARY,
        '{"__dataclass__":true,"module":"horsies.core.models.workflow.context","qualname":"SubWorkflowSummary","data":'
        '{"status":"FAILED","output":null,"total_tasks":2,"completed_tasks":1,"failed_tasks":1,"skipped_tasks":0,'
        '"error_summary":"…"}}',
    ),
]

aware = st.datetimes(timezones=st.sampled_from([UTC, timezone(timedelta(hours=-3, minutes=-30))]))
orders = st.builds(Order, number=st.integers(), placed=aware)
parcels = st.builds(Parcel, weight=st.floats(allow_nan=False, allow_infinity=False), due=st.dates())
leaves = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
    | aware
    | st.datetimes()
    | st.dates()
    | st.times()
    | orders
    | parcels
)
keys = st.text(max_size=8).filter(lambda key: key not in RESERVED)
values = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(keys, inner, max_size=4)
        | st.builds(Shipment, st.lists(parcels, max_size=2), orders)
        | st.builds(lambda value: TaskResult(ok=value), inner)
        | st.builds(lambda data: TaskResult(err=TaskError(error_code="MINE", data=data, message="no")), inner)
    ),
    max_leaves=12,
)


@pytest.mark.parametrize(("value", "text"), CONTRACT, ids=lambda part: type(part).__name__)
def test_each_kind_has_the_text_of_the_contract(value: Any, text: str) -> None:
    assert dump_value(value) == text


@settings(max_examples=150)
@given(values)
def test_what_is_read_is_what_was_written(value: Any) -> None:
    text = dump_value(value)
    assert load_value(text) == value
    assert dump_value(load_value(text)) == text
    json.loads(text.encode())


@settings(max_examples=100)
@given(st.lists(values, max_size=3), st.dictionaries(keys, values, max_size=3))
def test_arguments_come_back_as_they_were_sent(args: list[Any], kwargs: dict[str, Any]) -> None:
    assert load_args(dump_args(args)) == Ok(args)
    assert load_kwargs(dump_kwargs(kwargs)) == Ok(kwargs)


def test_no_arguments_are_a_null_column_unless_the_caller_wants_an_object() -> None:
    assert dump_args(()) is None
    assert dump_kwargs({}) is None
    assert load_args(None) == Ok([])
    assert load_kwargs(None) == Ok({})


@pytest.mark.parametrize(
    "value",
    [
        Basket(
            owner=UUID(int=7), price=Decimal("1.10"), orders=[ORDER], notes={"__datetime__": True, "value": "a note"}
        ),
        Aliased.model_validate({"no": 3, "nested": {"number": 1, "placed": PLACED}}),
        Strict(day=date(2026, 1, 31), pair=(1, 2)),
        Names(["a", "b"]),
        Outer.Inner(value=1),
        IntBox(content=1),
        Shipment([PARCEL], ORDER),
        Priced(3, "SEK"),
        SUMMARY,
    ],
    ids=lambda value: type(value).__name__,
)
def test_models_with_peculiarities_come_back_equal_and_of_their_class(value: Any) -> None:
    found = load_value(dump_value([value]))[0]
    assert found == value
    assert type(found) is type(value)


def test_fields_that_the_constructor_does_not_take_are_set_afterwards() -> None:
    text = dump_value(Shipment([PARCEL])).replace("1 parcels", "as stored")
    assert load_value(text).label == "as stored"


def test_stored_fields_that_the_dataclass_has_lost_are_ignored() -> None:
    text = dump_value(PARCEL).replace('"weight"', '"colour":"red","weight"')
    assert load_value(text) == PARCEL


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ((1, (2, 3)), [1, [2, 3]]),
        (range(3), [0, 1, 2]),
        (deque([1]), [1]),
        (MappingProxyType({"a": 1}), {"a": 1}),
        (OrderedDict(b=1, a=2), {"b": 1, "a": 2}),
        (
            {1: "int", None: "none", False: "bool", 1.5: "float", Colour.BLUE: "enum", OldStyleColour.RED: "old enum"},
            {"1": "int", "None": "none", "False": "bool", "1.5": "float", "blue": "enum", "red": "old enum"},
        ),
        (Colour.RED, "red"),
    ],
)
def test_kinds_that_json_does_not_know_come_back_as_their_neighbour(value: Any, found: Any) -> None:
    assert load_value(dump_value(value)) == found


def test_ten_megabytes_of_text_pass() -> None:
    text = "ä" * 10_000_000
    assert load_kwargs(dump_kwargs({"text": text})) == Ok({"text": text})


@pytest.mark.parametrize("text", ['"\\ud800"', '"\\u0000"'])
def test_escaped_surrogates_and_nul_that_others_stored_are_read(text: str) -> None:
    assert load_value(text) == json.loads(text)


# Equal sets, whose order of iteration is that of their insertion: both land in the same place of the table.
SETS = {0, 8}, {8, 0}
FROZEN = tuple(frozenset(each) for each in SETS)


class Box(BaseModel):
    numbers: set[int]
    names: dict[str, set[int]] = {}


class Summary(BaseModel):
    """Its serializers write lists of other lengths than their values."""

    numbers: set[int]
    items: list[int]

    @field_serializer("numbers", "items")
    def total(self, numbers: list[int]) -> list[int]:
        return [sum(numbers)]


class Boxes(BaseModel):
    boxes: list[Box]


@dataclass
class Crate:
    numbers: frozenset[int]
    inner: list[set[int]]


class Pair(NamedTuple):
    first: set[int]
    second: str


class Row(TypedDict):
    numbers: set[int]


def test_the_two_sets_are_equal_and_iterate_differently() -> None:
    assert SETS[0] == SETS[1]
    assert list(SETS[0]) != list(SETS[1])


@pytest.mark.parametrize(
    ("hint", "values"),
    [
        (set[int], SETS),
        (frozenset[int], FROZEN),
        (set[frozenset[int]], [{frozen} for frozen in FROZEN]),
        (list[set[int]], [[each] for each in SETS]),
        (dict[str, set[int]], [{"a": each} for each in SETS]),
        (Mapping[int, set[int]], [{1: each} for each in SETS]),
        (set[int] | None, SETS),
        (tuple[set[int], ...], [(each, each) for each in SETS]),
        (Pair, [Pair(each, "x") for each in SETS]),
        (Row, [Row(numbers=each) for each in SETS]),
        (Crate, [Crate(frozenset(each), [each]) for each in SETS]),
    ],
)
def test_equal_values_have_the_same_json(hint: Any, values: Any) -> None:
    conversion = conversion_of(hint)
    assert conversion is not None
    first, second = (dump_value(conversion.dump(value, "x"), "x") for value in values)
    assert first == second


def test_models_with_sets_have_the_same_json_and_come_back() -> None:
    first, second = (dump_value(Boxes(boxes=[Box(numbers=each, names={"a": each})]), "x") for each in SETS)
    assert first == second


@pytest.mark.parametrize("hint", [Summary, list[Summary]])
def test_what_a_serializer_of_a_field_writes_stays(hint: Any) -> None:
    value: Any = Summary(numbers={8, 0}, items=[1, 2])
    conversion = conversion_of(list[tuple[Summary, set[int]]])
    assert conversion is not None
    given = value if hint is Summary else conversion.dump([(value, {8})], "orders")
    text = dump_value(given)
    assert '"numbers":[8]' in text
    assert '"items":[3]' in text
