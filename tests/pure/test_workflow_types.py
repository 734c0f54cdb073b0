"""Whether the value of one node may be passed to another, by their annotations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal, NewType, Optional, Protocol, TypedDict, TypeVar, Union

import pytest
from hypothesis import given, strategies as st
from pydantic import BaseModel
from typing_extensions import TypeAliasType

from horsies import TaskError, TaskResult
from horsies.workflow.signatures import NodeFunction, fits, item_type, result_types

T = TypeVar("T")
UserId = NewType("UserId", int)
Numbers = TypeAliasType("Numbers", list[int])


class Animal(BaseModel):
    name: str


class Dog(Animal): ...


class Row(TypedDict):
    a: int


class Barks(Protocol):
    def bark(self) -> None: ...


PLAIN = [int, str, float, bool, None, Animal, Dog, Row, list, dict, UserId, Barks]
GENERIC = st.recursive(
    st.sampled_from(PLAIN),
    lambda inner: st.one_of(
        inner.map(lambda kind: list[kind]),
        inner.map(lambda kind: dict[str, kind]),
        inner.map(lambda kind: Annotated[kind, "note"]),
        st.tuples(inner, inner).map(lambda two: Union[two[0], two[1]]),  # noqa: UP007 - of values, not of names
    ),
    max_leaves=4,
)


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (int, float),
        (bool, int),
        (Dog, Animal),
        (list[Dog], list[Animal]),
        (list[int], Sequence[int]),
        (list[int], list),
        (list, list[int]),
        (list[int], Iterable[int]),
        (tuple[int, ...], list[int]),
        (dict[str, int], Mapping[str, int]),
        (Numbers, list[int]),
        (list[int], Numbers),
        (UserId, int),
        (int, UserId),
        (Row, dict),
        (dict[str, Any], Row),
        (Dog, Barks),
        (Literal["a"], str),
        (Literal["a"], Literal["a", "b"]),
        (str, Literal["a", "b"]),
        (list[T], list[int]),
        ("Forward", int),
        (int, int | None),
        (Optional[int], Union[str, int, None]),  # noqa: UP007, UP045 - the old spelling is another class
        (Annotated[int, "cents"], int),
    ],
)
def test_what_may_be_given(source: Any, target: Any) -> None:
    assert fits(source, target)


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (int, str),
        (float, int),
        (Animal, Dog),
        (list[int], list[str]),
        (list[int], int),
        (int, list[int]),
        (dict[str, int], dict[str, str]),
        (int | None, int),
        (int | str, int),
        (None, int),
        (Literal["a"], int),
        (Literal["c"], Literal["a", "b"]),
        (int, Literal["a"]),
        (UserId, str),
        (Numbers, list[str]),
        (list[dict[str, Dog]], list[dict[str, int]]),
    ],
)
def test_what_is_certainly_wrong(source: Any, target: Any) -> None:
    assert not fits(source, target)


@given(GENERIC, GENERIC)
def test_every_type_fits_itself_anything_and_a_union_with_it(kind: Any, other: Any) -> None:
    assert fits(kind, kind)
    assert fits(kind, Any)
    assert fits(Any, kind)
    assert fits(kind, object)
    assert fits(kind, Union[kind, other])  # noqa: UP007 - of values, not of names
    assert isinstance(fits(kind, other), bool)


@pytest.mark.parametrize(
    ("kind", "item"),
    [
        (list[int], int),
        (list, Any),
        (tuple[str, ...], str),
        (Sequence[Dog], Dog),
        (Numbers, int),
        (list[int] | None, Any),
        (Any, Any),
        (T, Any),
        (int, None),
        (str, None),
        (dict[str, int], None),
        (None, None),
        (int | None, None),
    ],
)
def test_the_items_of_a_list_and_what_is_none(kind: Any, item: Any) -> None:
    assert item_type(kind) == item


@pytest.mark.parametrize(
    ("hint", "kinds"),
    [
        (TaskResult[int, TaskError], [int]),
        (TaskResult, [Any]),
        (TaskResult[int, TaskError] | None, [int]),
        (Union[TaskResult[int, TaskError], TaskResult[str, TaskError]], [int, str]),  # noqa: UP007
        (Annotated[TaskResult[int, TaskError], "note"], [int]),
        (TypeAliasType("Money", TaskResult[int, TaskError]), [int]),
        ("TaskResult[Unknown, TaskError]", [Any]),
        (Any, [Any]),
        (int, None),
        ("int", None),
        (int | None, None),
        (None, None),
    ],
)
def test_which_results_a_parameter_takes(hint: Any, kinds: list[Any] | None) -> None:
    assert result_types(hint) == kinds


def test_a_hint_that_leads_nowhere_stays_a_text() -> None:
    def fn(a: TaskResult[Nowhere, TaskError], b: int, c=1) -> None: ...  # type: ignore[name-defined]  # noqa: F821

    target = NodeFunction(fn, "fn")
    assert target.hint("a") == "TaskResult[Nowhere, TaskError]"
    assert (target.hint("b"), target.hint("c"), target.hint("d")) == (int, None, None)
    assert [target.is_required(name) for name in "abcd"] == [True, True, False, False]
