"""Models at the top level of a module, as a user's own would be."""

from __future__ import annotations

import sys
from dataclasses import InitVar, dataclass, field
from datetime import date, datetime
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from functools import partial
from typing import Any, Generic, TypeVar
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, RootModel, computed_field, field_validator

from horsies.domain import codec
from horsies.domain.codec.classes import StorableClasses
from horsies.domain.task_result import TaskError

T = TypeVar("T")


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


class OldStyleColour(str, Enum):  # noqa: UP042 - the form that many code bases still use
    RED = "red"


class Level(IntEnum):
    LOW = 1


class Plain(Enum):
    ONE = 1


class Order(BaseModel):
    number: int
    placed: datetime


class Basket(BaseModel):
    owner: UUID
    price: Decimal
    orders: list[Order] = []
    notes: dict[str, Any] = {}


class Aliased(BaseModel):
    number: int = Field(alias="no")
    inner: Order | None = Field(default=None, validation_alias="nested")


class Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")

    day: date
    pair: tuple[int, int]

    @computed_field  # type: ignore[prop-decorator]
    @property
    def total(self) -> int:
        return sum(self.pair)


class Names(RootModel[list[str]]):
    pass


class Measured(BaseModel):
    value: float


class Picky(BaseModel):
    value: int

    @field_validator("value")
    @classmethod
    def _at_least_one(cls, value: int) -> int:
        if value < 1:
            raise KeyError("validators may raise anything")
        return value


class Box(BaseModel, Generic[T]):
    content: T


IntBox = Box[int]


class Outer:
    class Inner(BaseModel):
        value: int


@dataclass
class Parcel:
    weight: float
    due: date


@dataclass(frozen=True, slots=True)
class Shipment:
    parcels: list[Parcel]
    order: Order | None = None
    label: str = field(init=False, default="none")

    def __post_init__(self) -> None:
        object.__setattr__(self, "label", f"{len(self.parcels)} parcels")


@dataclass
class Priced:
    amount: int
    currency: InitVar[str] = "EUR"
    text: str = field(init=False)

    def __post_init__(self, currency: str) -> None:
        self.text = f"{self.amount} {currency}"


@dataclass
class Refusing:
    value: int

    def __post_init__(self) -> None:
        if self.value < 0:
            raise RuntimeError("never below zero")


class PaymentError(TaskError):
    order: Order
    attempts: int = 1


class NotAModel:
    def __init__(self) -> None:
        self.value = 1


def a_function() -> None:
    """An object that a row might name instead of a class."""


ORDER_TEXT = (
    '{"__pydantic_model__":true,"module":"codec_models","qualname":"Order",'
    '"data":{"number":7,"placed":"2026-11-18T06:31:06Z"}}'
)


def declaring(*modules: str) -> StorableClasses:
    """As an application would whose signatures name every class of these modules."""
    own = (each for name in modules for each in vars(sys.modules[name]).values())
    hints = [each for each in own if isinstance(each, type) and each.__module__ in modules]
    return StorableClasses(lambda: [*hints, Outer.Inner], lambda: 0)


CLASSES = declaring(__name__)
load_value = partial(codec.load_value, classes=CLASSES)
load_task_result = partial(codec.load_task_result, classes=CLASSES)
load_task_error = partial(codec.load_task_error, classes=CLASSES)
load_summary = partial(codec.load_summary, classes=CLASSES)
load_args = partial(codec.load_args, classes_for=lambda _: CLASSES)
load_kwargs = partial(codec.load_kwargs, classes_for=lambda _: CLASSES)
