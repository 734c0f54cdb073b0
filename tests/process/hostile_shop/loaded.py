"""A module that the application has imported, with classes that none of its signatures names."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

from pydantic import BaseModel, field_validator, model_validator

from horsies import TaskError
from hostile_shop import leave_a_trace


@dataclass
class Bomb:
    number: int = 1

    def __post_init__(self) -> None:
        leave_a_trace("a dataclass was made")


class Checked(BaseModel):
    number: int = 1

    @field_validator("number")
    @classmethod
    def _check(cls, number: int) -> int:
        leave_a_trace("a validator ran")
        return number

    @model_validator(mode="before")
    @classmethod
    def _check_all(cls, data: Any) -> Any:
        leave_a_trace("a validator ran")
        return data


class Colour(Enum):
    RED = "red"

    @classmethod
    def _missing_(cls, value: object) -> Colour:
        leave_a_trace("an enum was asked")
        return cls.RED


class Outer:
    @dataclass
    class Inner:
        number: int = 1

        def __post_init__(self) -> None:
            leave_a_trace("a nested dataclass was made")


class ShopError(TaskError):
    number: int = 1

    @model_validator(mode="before")
    @classmethod
    def _check_all(cls, data: Any) -> Any:
        leave_a_trace("an error was made")
        return data


def __getattr__(name: str) -> Any:
    leave_a_trace(f"{name} was looked for")
    raise AttributeError(name)
