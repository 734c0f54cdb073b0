"""Sets are stored in one order, however a process iterates over them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest
from pydantic import BaseModel, field_serializer
from typing_extensions import TypedDict

from horsies.domain.codec import dump_value
from horsies.domain.codec.conversion import conversion_of

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
