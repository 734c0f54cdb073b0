"""Arguments checked against annotations: valid ones always pass, clearly invalid ones are named and refused."""

from __future__ import annotations

from collections import OrderedDict, UserString, defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, MutableSequence, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any, Generic, Literal, NamedTuple, NewType, Optional, Protocol, TypedDict, TypeVar, Union
from uuid import UUID

import argument_functions
import pytest
from codec_models import (
    Box,
    Colour,
    IntBox,
    Level,
    OldStyleColour,
    Order,
    Parcel,
    PaymentError,
    Plain,
    Shipment,
    load_args,
    load_kwargs,
)
from hypothesis import given, strategies as st
from pydantic import Field
from typing_extensions import TypeAliasType
from workflow_shop import app, price

from horsies import ErrorCode, TaskError, TaskResult, WorkflowContext
from horsies.domain.argument_types import checker, kind_of
from horsies.domain.codec import dump_args, dump_kwargs
from horsies.domain.errors import HorsiesError
from horsies.workflow.nodes import MapNode, TaskNode

T = TypeVar("T")
UserId = NewType("UserId", int)
Numbers = TypeAliasType("Numbers", list[int])
DAY = datetime(2026, 1, 2, 3, 4, tzinfo=UTC)


class Point(NamedTuple):
    x: int
    y: int


class Wanted(TypedDict):
    sku: str


class Shouting(str):
    __slots__ = ()


class Stamp(datetime):
    pass


class Named(Protocol):
    name: str


class Weekday(Enum):
    MONDAY = "mon"


def type_statement(read: Callable[[], Any]) -> Any:
    """Like `type X = ...` of Python 3.12: the value is evaluated when it is read."""
    return type("TypeAliasType", (), {"__value__": property(lambda _self: read())})()


Json = type_statement(lambda: bool | int | float | str | list[Json] | dict[str, Json] | None)
Unheard = type_statement(lambda: unheard)  # type: ignore[name-defined]  # noqa: F821


class Lines(list[T], Generic[T]):
    pass


def taking(annotation: Any, default: Any = ...) -> Callable[..., Any]:
    def fn(it: Any) -> Any: ...

    fn.__annotations__["it"] = annotation
    if default is not ...:
        fn.__defaults__ = (default,)
    return fn


def arrived(value: Any) -> Any:
    """What the function would get, sent by name and by position."""
    named = load_kwargs(dump_kwargs({"it": value})).unwrap()
    assert load_args(dump_args([value])).unwrap() == [named["it"]]
    return named["it"]


SIMPLE = [
    (int, st.integers(-(2**60), 2**60) | st.booleans()),
    (str, st.text(st.characters(codec="utf-8"))),
    (float, st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**50), 2**50)),
    (bool, st.booleans()),
    (None, st.none()),
    (Any, st.integers() | st.none()),
    (datetime, st.just(DAY)),
    (date, st.dates() | st.just(DAY)),
    (time, st.times()),
    (Colour, st.sampled_from(Colour)),
    (Level, st.sampled_from(Level)),
    (OldStyleColour, st.sampled_from(OldStyleColour)),
    (Order, st.builds(Order, number=st.integers(0, 9), placed=st.just(DAY))),
    (Parcel, st.builds(Parcel, weight=st.floats(0, 9), due=st.dates())),
    (UserId, st.integers(0, 9).map(UserId)),
    (Annotated[int, Field(gt=0)], st.integers(1, 9)),
    (Literal["a", 1, None], st.sampled_from(["a", 1, None])),
    (Literal[Colour.RED], st.just(Colour.RED)),
    (Shouting, st.builds(Shouting)),
    (Stamp, st.just(Stamp(2026, 1, 2, tzinfo=UTC))),
    (Point, st.builds(Point, st.integers(0, 9), st.integers(0, 9))),
    (Wanted, st.just({"sku": "a"})),
    (T, st.integers()),
    (TaskResult[int, TaskError], st.just(TaskResult(ok=1)) | st.just(TaskResult(err=TaskError(message="no")))),
]
Typed = tuple[Any, st.SearchStrategy[Any]]


def _containers(inner: st.SearchStrategy[Typed]) -> st.SearchStrategy[Typed]:
    texts = st.text(st.characters(codec="utf-8", exclude_characters="_"), max_size=4)

    def of_one(given: Typed) -> list[Typed]:
        kind, values = given
        lists = st.lists(values, max_size=4)
        return [
            (list[kind], lists),
            (list[kind], lists.map(tuple)),
            (Sequence[kind], lists),
            (Iterable[kind], lists),
            (MutableSequence[kind], lists),
            (deque[kind], lists.map(deque)),
            (tuple[kind, ...], lists.map(tuple)),
            (tuple[kind, kind], st.tuples(values, values)),
            (dict[str, kind], st.dictionaries(texts, values, max_size=3)),
            (dict[int, kind], st.dictionaries(st.integers(), values, max_size=3)),
            (Mapping[str, kind], st.dictionaries(texts, values, max_size=3)),
            (defaultdict[str, kind], st.dictionaries(texts, values, max_size=3).map(lambda d: defaultdict(int, d))),
            (OrderedDict[str, kind], st.dictionaries(texts, values, max_size=3).map(OrderedDict)),
            (Optional[kind], values | st.none()),  # noqa: UP045 - this form, too
            (Union[kind, list[str]], values | st.lists(texts, max_size=3)),  # noqa: UP007
        ]

    return inner.flatmap(lambda given: st.sampled_from(of_one(given)))


TYPED = st.recursive(st.sampled_from(SIMPLE), _containers, max_leaves=4)


@given(TYPED.flatmap(lambda typed: st.tuples(st.just(typed[0]), typed[1])))
def test_a_value_of_its_type_passes_before_and_after_it_was_stored(typed: tuple[Any, Any]) -> None:
    annotation, value = typed
    check = checker(taking(annotation))
    for each in (value, arrived(value)):
        assert check([each], {}) is None
        assert check([], {"it": each}) is None


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (list, [1, "a"]),
        (tuple, [1]),
        (dict, {"a": 1}),
        (Sequence[str], "abc"),
        (Iterable[int], {"a": 1}),
        (tuple[()], [1]),
        (Lines[int], ["not judged"]),
        (Json, {"a": [1, {"b": None}]}),
        (Numbers, [1, 2]),
        (Unheard, 5),
        (Literal[1], 1),
        (Weekday, "mon"),
        (Weekday, "MONDAY"),
        (Plain, 1),
        (Colour, "red"),
        (int | None, None),
        ("int | NotHere", "not judged"),
        (list["NotHere"], [5]),  # type: ignore[name-defined]  # noqa: F821
        (1, "an annotation that is no type"),
        (UUID, "7b0b1b1e-0000-4000-8000-000000000000"),
        (Decimal, "1.5"),
        (Path, "/tmp"),
        (timedelta, 60.0),
        (set[int], [1, 2]),
        (bytes, "aGk="),
        (int | UUID, "text"),
        (Named, {"name": "a"}),
        (UserString, ["not judged"]),
        (object, 5),
        (Callable[[], int], "not judged"),
        (type[int], "not judged"),
        (PaymentError, TaskError(message="read by a process that does not know its class")),
        (IntBox, Box(content=1)),
        (Box[bytes], Box(content="a")),
        (Shipment, Shipment([])),
        (WorkflowContext, WorkflowContext("w", 0, "t")),
    ],
)
def test_what_is_legal_or_uncertain_passes(annotation: Any, value: Any) -> None:
    assert checker(taking(annotation))([value], {}) is None


MISFITS: list[tuple[Any, Any, str]] = [
    (int, "5", "it is str, not int"),
    (int, 5.0, "it is float, not int"),
    (int, None, "it is None, not int"),
    (bool, 1, "it is int, not bool"),
    (str, 5, "it is int, not str"),
    (float, "1.5", "it is str, not float"),
    (None, 0, "it is int, not None"),
    (Shouting, 5, "it is int, not Shouting"),
    (int | None, "x", "it is str, not int | None"),
    (Optional[int], "x", "it is str, not Optional[int]"),  # noqa: UP045
    (int | str, [1], "it is list of 1, not int | str"),
    (list[int], "abc", "it is str, not list[int]"),
    (list[int], {"a": 1}, "it is dict, not list[int]"),
    (list[int], [1, 2, "x"], "it[2] is str, not int"),
    (list[int] | None, [1, "x"], "it[1] is str, not int"),
    (Sequence[int], "abc", "it is str, not"),
    (Iterable[int], 5, "it is int, not"),
    (MutableSequence[str], "abc", "it is str, not"),
    (tuple[int, str], [1, 2], "it[1] is int, not str"),
    (tuple[int, str], [1], "it is list of 1, not tuple[int, str]"),
    (tuple[int, ...], [1, "x"], "it[1] is str, not int"),
    (Point, "xy", "it is str, not Point"),
    (dict[str, int], [1], "it is list of 1, not dict[str, int]"),
    (dict[str, int], {"a": 1, "b": "x"}, "it.b is str, not int"),
    (dict[str, list[int]], {"a": [1, None]}, "it.a[1] is None, not int"),
    (Wanted, "sku", "it is str, not Wanted"),
    (datetime, "2026-01-02", "it is str, not datetime"),
    (datetime, date(2026, 1, 2), "it is date, not datetime"),
    (date, 5, "it is int, not date"),
    (Stamp, 5, "it is int, not Stamp"),
    (Colour, "green", "it is str, not a value of Colour"),
    (Level, 7, "it is int, not a value of Level"),
    (Weekday, "tue", "it is str, not a value of Weekday"),
    (Literal["a", "b"], "c", "it is str, not Literal['a', 'b']"),
    (Literal[1], True, "it is bool, not Literal[1]"),
    (Order, {"number": 1}, "it is dict, not Order"),
    (Order, Parcel(1.0, date(2026, 1, 2)), "it is Parcel, not Order"),
    (Parcel, None, "it is None, not Parcel"),
    (list[Parcel], [{"weight": 1}], "it[0] is dict, not Parcel"),
    (Box[int], 5, "it is int, not Box[int]"),
    (TaskError, "no", "it is str, not TaskError"),
    (TaskResult[int, TaskError], 5, "it is int, not"),
    (UserId, "x", "it is str, not int"),
    (Annotated[int, Field(gt=0)], "x", "it is str, not int"),
    (Numbers, [1, "x"], "it[1] is str, not int"),
]


@pytest.mark.parametrize(("annotation", "value", "says"), MISFITS)
def test_what_certainly_does_not_fit_is_named_without_its_value(annotation: Any, value: Any, says: str) -> None:
    misfit = checker(taking(annotation))([value], {})
    assert str(misfit).startswith(says)
    assert str(checker(taking(annotation))([], {"it": value})) == str(misfit)


def test_a_default_of_none_is_a_legal_argument() -> None:
    assert checker(taking(int, None))([None], {}) is None
    assert str(checker(taking(int, None))(["x"], {})) == "it is str, not int"
    assert str(checker(taking(int, 5))([None], {})) == "it is None, not int"


def test_each_parameter_is_judged_however_it_is_given() -> None:
    def fn(a: int, /, b: str, *rest: int, c: bool = False, **more: float) -> Any: ...

    check = checker(fn)
    assert check([1, "b", 2, 3], {"c": True, "d": 1.5, "a": 0.5}) is None
    assert str(check([1], {"b": 2})) == "b is int, not str"
    assert str(check([1, "b", 2, "x"], {})) == "rest[1] is str, not int"
    assert str(check([1, "b"], {"c": "x"})) == "c is str, not bool"
    assert str(check([1, "b"], {"a": "x"})) == "a is str, not float"  # a key of **more: the first is by position only


def test_annotations_that_are_text_are_read_where_they_stand() -> None:
    check = checker(argument_functions.in_words)
    assert check([5], {"colour": "blue", "order": None, "x": []}) is None
    assert str(check(["5"], {})) == "item_id is str, not int"
    assert str(check([5, {}], {})) == "order is dict, not codec_models.Order | None"
    assert str(check([5], {"colour": "mauve"})) == "colour is str, not a value of Colour"
    assert str(check([5], {"x": [1]})) == "x[0] is int, not Parcel"


def test_a_name_that_leads_nowhere_leaves_its_own_parameter_unjudged() -> None:
    check = checker(argument_functions.with_unknown_names)
    assert check([object(), 5, object()], {}) is None
    assert str(check([object(), "x", object()], {})) == "count is str, not int"


def test_a_class_of_a_module_that_was_imported_twice_is_the_same() -> None:
    copies = [dataclass(type("Copy", (), {"__annotations__": {"n": int}, "__module__": name})) for name in ("a", "b")]
    assert checker(taking(copies[0]))([copies[1](1)], {}) is None


def test_a_recursive_alias_is_judged_one_level_deep() -> None:
    kind = kind_of(Json)
    assert kind is not None
    assert kind.fits({"a": [object()]})
    assert not kind.fits(DAY)


@pytest.mark.parametrize(
    ("node", "says"),
    [
        (lambda: TaskNode(price, kwargs={"sku": 5}), "sku is int, not str"),
        (lambda: price.node()(sku=5), "sku is int, not str"),
        (lambda: MapNode(price, ["a", 5]), "over[1] is int, not str"),
    ],
)
def test_a_fixed_argument_of_a_node_is_of_the_type_that_its_task_takes(node: Callable[[], Any], says: str) -> None:
    with pytest.raises(HorsiesError) as caught:
        app.workflow("demo", [node()], definition_key="tests.demo")
    assert caught.value.code is ErrorCode.WORKFLOW_ARGS_FROM_TYPE_MISMATCH
    assert says in caught.value.message


def test_an_odd_object_is_a_misfit_and_no_exception() -> None:
    assert str(checker(taking(int))([SimpleNamespace()], {})) == "it is SimpleNamespace, not int"
