"""Which classes a declared type reaches, and which of them a row may name where."""

from __future__ import annotations

import sys
from abc import ABC
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from types import ModuleType
from typing import Annotated, Any, Generic, Literal, NamedTuple, NewType, Protocol, TypedDict, TypeVar

import pytest
from codec_models import Basket, Box, Colour, IntBox, Order, Outer, Parcel, PaymentError, Shipment
from pydantic import BaseModel, Field
from task_apps import make_app

from horsies import Horsies, TaskError, TaskNode, TaskResult, WorkflowDefinition
from horsies.domain.codec import dump_args, dump_value, load_args, load_task_result, load_value
from horsies.domain.codec.classes import OURS, Reach, UndeclaredClassError, address_of
from horsies.domain.errors import ConfigurationError

T = TypeVar("T")
BoundT = TypeVar("BoundT", bound=Order)
Parcels = NewType("Parcels", list[Parcel])


class Line(TypedDict):
    order: Order


class Pair(NamedTuple):
    left: Parcel
    right: int


class Shape(Protocol):
    weight: float


class Base(ABC):  # noqa: B024 - classes may be registered with it
    pass


@dataclass
class Animal:
    name: str


@dataclass
class Dog(Animal):
    friends: list[Animal] | None = None


@dataclass
class Cat(Animal):
    pass


@dataclass
class Bird(Animal):
    """Named by a definition, which stays known to the process."""


@dataclass
class Holder(Generic[T]):
    content: T


@dataclass
class HalfResolved:
    """One annotation is for type checkers only; the others count."""

    price: Decimal | None = None
    parcel: Parcel | None = None


class Tree(BaseModel):
    leaves: dict[str, Parcel] = {}
    branches: list[Tree] = []
    anything: Any = None


@pytest.mark.parametrize(
    ("hint", "classes"),
    [
        (int, set()),
        (None, set()),
        (Order, {Order}),
        (Order | None, {Order}),
        (list[dict[str, Order]], {Order}),
        (tuple[Order, ...] | Mapping[int, Sequence[Parcel]], {Order, Parcel}),
        (Annotated[Order, Field(description="it")], {Order}),
        (Parcels, {Parcel}),
        (Line, {Order}),
        (Pair, {Parcel}),
        (Shipment, {Shipment, Parcel, Order}),
        (Basket, {Basket, Order}),
        (IntBox, {IntBox, Box}),
        (Holder[Order], {Holder, Order}),
        (TaskResult[list[Order], PaymentError], {Order, PaymentError}),
        (Tree, {Tree, Parcel}),
        (BoundT, {Order}),
        (Literal["Order"], set()),
        (HalfResolved, {HalfResolved, Parcel}),
        (type[Any] | Callable[[Order], Parcel], {Order, Parcel}),
    ],
    ids=[*map(str, range(20))],
)
def test_a_type_reaches_the_classes_that_it_names_and_those_of_their_fields(hint: Any, classes: set[type]) -> None:
    found = {cls for cls in Reach(hint).classes if cls.__module__ in (__name__, "codec_models")}
    assert found - {Colour} == classes


@pytest.mark.parametrize(
    "hint", [Any, object, list, dict, tuple, Sequence, T, Shape, Base, "Nowhere", Holder[Any], TaskResult]
)
def test_a_type_that_leaves_it_open_takes_any_declared_class(hint: Any) -> None:
    assert Reach(hint).is_open


@pytest.mark.parametrize(
    "hint", [int, str, bytes, list[int], Order, Tree, Animal, None, Colour, TaskResult[int, TaskError]]
)
def test_a_type_that_says_all_leaves_nothing_open(hint: Any) -> None:
    assert not Reach(hint).is_open


@pytest.fixture
def app() -> Horsies:
    return make_app()


def run(app: Horsies, hint: Any, value: Any) -> str | None:
    """The class of an argument that arrives in a task of this signature; None if the row is refused."""

    def task(value: Any) -> TaskResult[str, TaskError]:
        return TaskResult(ok=type(value).__name__)

    task.__annotations__["value"] = hint
    task.__module__ = __name__
    made = app.task(f"task {len(app.tasks)}", task)
    loaded = load_args(dump_args([value]), made.parameters.classes_for)
    return type(loaded.unwrap()[0]).__name__ if loaded.is_ok() else None


def test_where_a_type_is_open_a_class_must_be_declared_elsewhere_or_storable(app: Horsies) -> None:
    dog = Dog("Rex")
    assert run(app, Any, dog) is None
    assert run(app, Animal, dog) is None
    app.storable(Dog)
    assert run(app, Any, dog) == run(app, Animal, dog) == run(app, object, dog) == run(app, "Nowhere", dog) == "Dog"
    assert run(app, int, dog) is None
    assert run(app, Cat, dog) is None
    assert run(app, Cat, Cat("Tom")) == run(app, Any, Cat("Tom")) == "Cat"


def test_a_class_of_a_result_or_a_workflow_is_declared_as_well(app: Horsies) -> None:
    @app.task("ship")
    def ship(number: int) -> TaskResult[list[Shipment], TaskError]:
        raise NotImplementedError

    assert app.storable.find(**address_of(Parcel)) is Parcel

    class Move(WorkflowDefinition[Tree]):
        name = "move"
        definition_key = f"{__name__}.move"

        @classmethod
        def build_with(cls, app: Any, bird: Bird | None = None) -> Any:
            raise NotImplementedError

        first = TaskNode(ship, kwargs={"number": 1})

    for cls in (Tree, Bird):
        assert app.storable.find(**address_of(cls)) is cls
    with pytest.raises(UndeclaredClassError):
        app.storable.find(**address_of(Cat))


def test_what_cannot_be_read_says_why_and_what_to_do(app: Horsies) -> None:
    """The result of an older process, whose class no signature reaches any more."""
    text = dump_value(TaskResult(ok=[Cat("Tom")]))
    error = load_task_result(text, app.storable).err_value
    assert error.error_code.value == "PYDANTIC_HYDRATION_ERROR"
    assert error.message == (
        "the stored result cannot be rebuilt: result.ok[0]: no signature of this application declares the class "
        f"{__name__}.Cat; name it in the types of a task, or allow it where the application is defined: "
        "app.storable(...)"
    )
    app.storable(Cat)
    assert load_task_result(text, app.storable).ok_value == [Cat("Tom")]


def test_a_send_refuses_what_no_worker_would_read(app: Horsies) -> None:
    @app.task("open")
    def open_(value: Any) -> TaskResult[int, TaskError]:
        raise NotImplementedError

    refused = open_.send(value=Cat("Tom")).unwrap_err()
    assert (refused.code, refused.retryable) == ("VALIDATION_FAILED", False)
    assert "kwargs.value: no signature of this application declares the class" in refused.message
    app.storable(Cat)
    assert open_.send(value=Cat("Tom")).unwrap_err().code == "ENQUEUE_FAILED"  # there is no database here


def test_storable_is_a_decorator_for_dataclasses_and_models(app: Horsies) -> None:
    assert app.storable(Dog, Order, Parcel) is Dog
    assert app.storable(Cat) is Cat
    for wrong in (int, Colour, Outer, Cat("Tom"), TaskResult):
        with pytest.raises(ConfigurationError, match="dataclasses and pydantic models"):
            app.storable(wrong)  # type: ignore[arg-type]


def test_names_that_are_defined_later_count_from_then_on(app: Horsies) -> None:
    def task(value: Any) -> TaskResult[int, TaskError]:
        raise NotImplementedError

    task.__annotations__["value"] = "LaterHere"
    made = app.task("later", task)
    classes = made.parameters.classes_for("value")
    assert classes is not None
    with pytest.raises(UndeclaredClassError):
        classes.find(**address_of(Cat))
    globals()["LaterHere"] = Cat
    try:
        assert classes.find(**address_of(Cat)) is Cat
    finally:
        del globals()["LaterHere"]


def test_a_class_that_has_moved_is_found_at_its_old_place_and_nothing_is_called_for_it(
    app: Horsies, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = ModuleType("codec_old_place")
    old.Order, old.Holder = Order, type("Holder", (), {"Inner": Parcel})  # type: ignore[attr-defined]
    old.__getattr__ = lambda name: pytest.fail(f"{name} was looked for")  # type: ignore[method-assign]
    monkeypatch.setitem(sys.modules, "codec_old_place", old)
    app.storable(Order, Parcel)
    assert app.storable.find("codec_old_place", "Order") is Order
    assert app.storable.find("codec_old_place", "Holder.Inner") is Parcel
    for name in ("Missing", "Holder.Missing", "Order.model_construct", "", ".", "__class__", "Holder.__class__"):
        with pytest.raises(UndeclaredClassError):
            app.storable.find("codec_old_place", name)


def test_a_file_that_was_imported_under_two_names_has_each_class_once(
    app: Horsies, monkeypatch: pytest.MonkeyPatch
) -> None:
    twin = ModuleType("codec_twin")
    twin.__file__ = sys.modules["codec_models"].__file__
    monkeypatch.setitem(sys.modules, "codec_twin", twin)
    app.storable(Order)
    assert app.storable.find("codec_twin", "Order") is Order
    with pytest.raises(UndeclaredClassError):
        app.storable.find("codec_twin", "Priced")


def test_without_an_application_only_what_the_library_stores_is_read() -> None:
    with pytest.raises(ValueError, match="no signature"):
        load_value(dump_value(Parcel(1.0, None)))  # type: ignore[arg-type]
    assert OURS.find("horsies.core.models.workflow.context", "SubWorkflowSummary").__name__ == "SubWorkflowSummary"
