"""What a signature says is what the task's code gets, and what its TaskResult says is what the caller gets."""

from __future__ import annotations

import enum
import json
from collections import OrderedDict, deque
from collections.abc import Mapping, Sequence
from contextvars import copy_context
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from ipaddress import IPv4Address, IPv6Network
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Generic, Literal, NamedTuple, NewType, TypeVar
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from pydantic import BaseModel, Field, SecretStr
from task_apps import make_app
from typing_extensions import TypeAliasType, TypedDict

from horsies import Err, OperationalErrorCode, TaskError, TaskResult
from horsies.domain.codec import dump_args, dump_kwargs, load_task_result
from horsies.domain.codec.conversion import Fidelity, fidelity
from horsies.run.child.execute import ChildRun, Message, execute
from horsies.task.options import PLAIN
from horsies.task.parameters import Parameters

T = TypeVar("T")


class Colour(enum.StrEnum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Plain(enum.Enum):
    ONE = 1
    TEXT = "text"


class Flag(enum.Flag):
    A = 1
    B = 2


class Point(NamedTuple):
    x: int
    y: float


class Place(NamedTuple):
    id: UUID
    point: Point


class Options(TypedDict):
    size: tuple[int, int]
    colour: Colour


class Price(TypedDict, total=False):
    amount: Decimal


class Order(BaseModel):
    id: UUID
    total: Decimal
    tags: set[str] = Field(default_factory=set)


class Page(BaseModel, Generic[T]):
    items: list[T]


@dataclass
class Box:
    size: tuple[int, int]
    colours: dict[Level, Colour]


@dataclass(frozen=True)
class Money:
    amount: Decimal
    currency: str = "EUR"


@dataclass
class Basket:
    lines: list[Money]
    owner: UUID | None = None
    notes: list[str] = field(default_factory=list)


UserId = NewType("UserId", UUID)
Pair = TypeAliasType("Pair", tuple[int, str])
Positive = Annotated[int, Field(gt=0)]

NAME = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8)
WHOLE = st.integers(-(2**60), 2**60)
NUMBER = st.floats(allow_nan=False, allow_infinity=False)
AMOUNT = st.decimals(allow_nan=False, allow_infinity=False)
MOMENT = st.datetimes(timezones=st.just(UTC))
LATER = st.timedeltas(timedelta(0), timedelta(days=9999)).map(lambda span: span - span % timedelta(milliseconds=1))
MONEY = st.builds(Money, AMOUNT, NAME)

VALUES: dict[str, tuple[Any, st.SearchStrategy[Any]]] = {
    "bool": (bool, st.booleans()),
    "int": (int, WHOLE),
    "float": (float, NUMBER),
    "str": (str, NAME),
    "None": (None, st.none()),
    "list": (list[int], st.lists(WHOLE)),
    "dict": (dict[str, int], st.dictionaries(NAME, WHOLE)),
    "datetime": (datetime, MOMENT),
    "date": (date, st.dates()),
    "time": (time, st.times()),
    "timedelta": (timedelta, LATER),
    "uuid": (UUID, st.uuids()),
    "decimal": (Decimal, AMOUNT),
    "bytes": (bytes, st.binary()),
    "path": (Path, NAME.map(lambda name: Path("/tmp") / name.replace("/", "_"))),
    "pure path": (PurePosixPath, st.just(PurePosixPath("a/b"))),
    "ip": (IPv4Address, st.ip_addresses(v=4)),
    "network": (IPv6Network, st.just(IPv6Network("2001:db8::/32"))),
    "fraction": (Fraction, st.fractions()),
    "complex": (complex, st.just(1 + 2j)),
    "str enum": (Colour, st.sampled_from(Colour)),
    "int enum": (Level, st.sampled_from(Level)),
    "enum": (Plain, st.sampled_from(Plain)),
    "flag": (Flag, st.sampled_from(Flag)),
    "literal": (Literal["a", 1, None], st.sampled_from(["a", 1, None])),
    "literal enum": (Literal[Colour.RED], st.just(Colour.RED)),
    "tuple": (tuple[int, str], st.tuples(WHOLE, NAME)),
    "long tuple": (tuple[int, ...], st.lists(WHOLE).map(tuple)),
    "nested tuple": (tuple[tuple[int, int], list[tuple[str]]], st.just(((1, 2), [("a",)]))),
    "set": (set[int], st.sets(WHOLE)),
    "frozenset": (frozenset[str], st.frozensets(NAME)),
    "set of uuids": (set[UUID], st.sets(st.uuids(), max_size=3)),
    "deque": (deque[int], st.lists(WHOLE).map(deque)),
    "ordered": (OrderedDict[str, int], st.dictionaries(NAME, WHOLE).map(OrderedDict)),
    "int keys": (dict[int, str], st.dictionaries(WHOLE, NAME)),
    "uuid keys": (dict[UUID, int], st.dictionaries(st.uuids(), WHOLE, max_size=3)),
    "enum keys": (dict[Level, Colour], st.dictionaries(st.sampled_from(Level), st.sampled_from(Colour))),
    "date keys": (dict[date, Decimal], st.dictionaries(st.dates(), AMOUNT, max_size=3)),
    "mapping": (Mapping[int, tuple[int, int]], st.just({1: (2, 3)})),
    "sequence": (Sequence[UUID], st.lists(st.uuids(), max_size=3)),
    "named tuple": (Point, st.builds(Point, WHOLE, NUMBER)),
    "deep named tuple": (Place, st.builds(Place, st.uuids(), st.builds(Point, WHOLE, NUMBER))),
    "typed dict": (Options, st.just({"size": (1, 2), "colour": Colour.RED})),
    "decimal dict": (Price, st.fixed_dictionaries({}, optional={"amount": AMOUNT})),
    "model": (Order, st.builds(Order, id=st.uuids(), total=AMOUNT, tags=st.sets(NAME, max_size=2))),
    "models": (list[Order], st.just([Order(id=UUID(int=1), total=Decimal("1.10"))])),
    "tuple of models": (tuple[Order, int], st.just((Order(id=UUID(int=1), total=Decimal(1)), 2))),
    "models by uuid": (dict[UUID, Order], st.just({UUID(int=2): Order(id=UUID(int=1), total=Decimal(1))})),
    "generic model": (Page[int], st.builds(Page[int], items=st.lists(WHOLE))),
    "dataclass": (Box, st.just(Box((1, 2), {Level.LOW: Colour.RED}))),
    "decimal dataclass": (Money, MONEY),
    "deep dataclass": (Basket, st.builds(Basket, st.lists(MONEY, max_size=2), st.none() | st.uuids())),
    "tuple of dataclasses": (tuple[Box, ...], st.just((Box((1, 2), {}),))),
    "optional": (UUID | None, st.none() | st.uuids()),
    "union": (int | UUID | None, st.none() | WHOLE | st.uuids()),
    "optional tuple": (tuple[int, int] | None, st.just((1, 2))),
    "new type": (UserId, st.uuids()),
    "alias": (Pair, st.tuples(WHOLE, NAME)),
    "constrained": (Positive, st.integers(1, 2**40)),
    "tuple of moments": (tuple[datetime, date], st.tuples(MOMENT, st.dates())),
    "any": (Any, st.just({"a": [1, None]})),
    "result": (TaskResult[tuple[int, UUID], TaskError], st.just(TaskResult(ok=(1, UUID(int=1))))),
}


def echo_task(hint: Any) -> Any:
    """A task that returns its argument; its body keeps what it got."""

    def echo(value, *rest, **more):  # type: ignore[no-untyped-def]  # annotated below
        got.append((value, rest, more))
        return TaskResult(ok=value)

    got: list[Any] = []
    echo.__annotations__ = {"value": hint, "rest": hint, "more": hint, "return": TaskResult[hint, TaskError]}
    task = make_app().task("echo", echo)
    task.got = got  # type: ignore[attr-defined]
    return task


def stored(task: Any, *args: Any, **kwargs: Any) -> Any:
    result = task._requests.prepare(args, kwargs, PLAIN, suppressed=False)
    return result.unwrap()


class NoLeases:
    """A run here needs none."""

    def begin(self, slot: int, number: int) -> None: ...
    def end(self, slot: int, number: int) -> None: ...


def ran(task: Any, args: str | None, kwargs: str | None) -> TaskResult[Any, Any]:
    """The result of a run with these stored arguments, as a handle reads it."""
    job = Message(1, "key", "echo", args, kwargs, ("default", 1, None), None, None, 0)
    run: Any = ChildRun(1, 0, job, NoLeases(), None)  # type: ignore[arg-type]  # nothing is reported here
    outcome = copy_context().run(execute, {"echo": task}, job, run, None, None)
    run.release()
    return task.restored(load_task_result(outcome[1], task.result_classes))  # type: ignore[no-any-return]


TASKS = {name: echo_task(hint) for name, (hint, _) in VALUES.items()}


@pytest.mark.parametrize("name", VALUES)
@settings(max_examples=12, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_a_value_arrives_as_its_annotation_says_and_comes_back_so(name: str, data: st.DataObject) -> None:
    task, value = TASKS[name], data.draw(VALUES[name][1])
    request = stored(task, value, value, named=value)
    result = ran(task, request.args_json, request.kwargs_json)
    got, rest, more = task.got.pop()
    assert (got, rest, more) == (value, (value,), {"named": value})
    assert {type(got), type(rest[0]), type(more["named"])} == {type(value)}
    assert type(result.ok) is type(value)
    assert result.ok == value


def test_a_parameter_that_plain_json_is_enough_for_has_not_the_type_of_the_named_rest() -> None:
    def named(count: int, **more: Decimal) -> None: ...

    def by_position(key: UUID, /, **more: Decimal) -> None: ...

    parameters = Parameters(named)
    _, kwargs = parameters.to_stored((), {"count": 1, "price": Decimal("1.5")})
    assert kwargs["count"] == 1
    assert parameters.from_stored((), {"count": 1, "price": "1.5"}) == ([], {"count": 1, "price": Decimal("1.5")})

    args, kwargs = Parameters(by_position).from_stored([str(UUID(int=1))], {"key": "1.5"})
    assert (args, kwargs) == ([UUID(int=1)], {"key": Decimal("1.5")})


KEPT = [int, list[dict[str, float]], datetime, Order, list[Order], Box, int | str | None, Page[int], Any, SecretStr]


@pytest.mark.parametrize("hint", KEPT, ids=str)
def test_types_that_json_keeps_take_the_usual_way(hint: Any) -> None:
    assert fidelity(hint) is Fidelity.KEPT
    assert echo_task(hint).parameters._conversions is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("str enum", Colour.RED),
        ("int enum", Level.HIGH),
        ("tuple", (1, "x")),
        ("int keys", {1: "x"}),
        ("named tuple", Point(1, 2.5)),
        ("tuple of models", (Order(id=UUID(int=1), total=Decimal(1)), 2)),
        ("dataclass", Box((1, 2), {Level.LOW: Colour.RED})),
        ("tuple of moments", (datetime(2026, 1, 2, tzinfo=UTC), date(2026, 1, 2))),
    ],
)
def test_what_upstream_could_store_is_stored_as_upstream_does(name: str, value: Any) -> None:
    request = stored(TASKS[name], value, named=value)
    assert request.args_json == dump_args([value])
    assert request.kwargs_json == dump_kwargs({"named": value})


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("uuid", "no uuid", "value: Input should be an instance of UUID"),
        ("decimal", 1.5, "value: Input should be an instance of Decimal"),
        ("set", {"1"}, "value[0]: Input should be a valid integer"),
        ("tuple", ("x", "y"), "value[0]: Input should be a valid integer"),
        ("int keys", {"x": "y"}, "value.x"),
        ("constrained", 0, "value: Input should be greater than 0"),
        ("deep named tuple", Place(UUID(int=1), Point("x", 1)), "value.point.x"),  # type: ignore[arg-type]
        ("enum", "no member", "value"),
    ],
)
def test_a_value_that_does_not_fit_is_an_err_at_the_sender(name: str, value: Any, words: str) -> None:
    result = TASKS[name]._requests.prepare((value,), {}, PLAIN, suppressed=False)
    assert isinstance(result, Err)
    assert result.err_value.message.startswith("task 'echo' was not sent: the arguments do not fit echo(")
    assert words in result.err_value.message


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("uuid", '["no uuid"]', "value: Input should be a valid UUID"),
        ("set", '[["x"]]', "value[0]: Input should be a valid integer"),
        ("constrained", "[0]", "value: Input should be greater than 0"),
        ("int keys", '[{"x":"y"}]', "value.x"),
    ],
)
def test_a_stored_value_that_does_not_fit_is_a_code_at_the_receiver(name: str, text: str, words: str) -> None:
    error = ran(TASKS[name], text, None).err
    assert isinstance(error, TaskError)
    assert error.error_code is OperationalErrorCode.WORKER_SERIALIZATION_ERROR
    assert error.message is not None
    assert words in error.message
    assert TASKS[name].got == []


class Blob(BaseModel):
    data: bytes


def blobs() -> TaskResult[dict[UUID, Blob], TaskError]:
    return TaskResult(ok={UUID(int=1): Blob(data=b"\xff")})


def test_a_result_that_pydantic_cannot_write_fails_with_the_reason() -> None:
    result = make_app().task("blobs", blobs).run([], {})
    assert result.err.error_code is OperationalErrorCode.WORKER_SERIALIZATION_ERROR
    assert result.err.message.startswith("the result was not stored: the value cannot be written: ")


def test_rows_with_plain_json_run() -> None:
    """As plain SQL or another language writes them."""
    assert ran(TASKS["deep dataclass"], '[{"lines":[{"amount":"1.10"}]}]', None).ok == Basket([Money(Decimal("1.10"))])
    assert ran(TASKS["uuid"], None, json.dumps({"value": str(UUID(int=7))})).ok == UUID(int=7)
