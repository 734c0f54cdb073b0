"""Values that cannot be stored: each is refused with its path and the remedy."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from codec_models import Basket, Box, Measured, NotAModel, Order, Parcel, Plain
from hypothesis import given, strategies as st
from pydantic import BaseModel

from horsies.domain.codec import CodecError, dump_args, dump_kwargs, dump_task_result, dump_value
from horsies.domain.tags import RESERVED
from horsies.domain.task_result import TaskError, TaskResult


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"x", "bytes is not JSON; annotate it as bytes, or encode it as text"),
        (bytearray(b"x"), "bytearray is not JSON; annotate it as bytes, or encode it as text"),
        (memoryview(b"x"), "memoryview is not JSON; annotate it as bytes, or encode it as text"),
        ({1}, "set is not JSON; annotate it as set[...], or convert it to a list"),
        (frozenset({1}), "frozenset is not JSON; annotate it as set[...], or convert it to a list"),
        (Plain.ONE, "Plain is not JSON; annotate it as its enum, or send its value"),
        (UUID(int=1), "UUID is not JSON; annotate it as UUID, or convert it to str"),
        (Decimal(1), "Decimal is not JSON; annotate it as Decimal, or convert it to str or float"),
        (timedelta(1), "timedelta is not JSON; annotate it as timedelta, or send its total_seconds"),
        (NotAModel(), "NotAModel is not JSON; send plain JSON values, a dataclass or a pydantic model"),
        (object(), "object is not JSON"),
        (Order, "is not JSON; send its name"),
        (Parcel, "type is not JSON; send its name"),
        (1j, "complex is not JSON"),
        (iter([1]), "list_iterator is not JSON"),
        (len, "builtin_function_or_method is not JSON"),
        (float("nan"), "nan is not JSON"),
        (float("inf"), "inf is not JSON"),
        (float("-inf"), "-inf is not JSON"),
        (10**5000, "more than 4,214 digits"),
        ("ab\ud800", r"the lone surrogate '\ud800' at position 2"),
        ({"\udfff": 1}, r"the lone surrogate '\udfff' at position 0"),
        ({1: "a", "1": "b"}, "two keys are both written as '1'"),
        (Measured(value=float("nan")), "nan is not JSON"),
        (Basket(owner=UUID(int=1), price=Decimal(1), notes={"text": "\ud800"}), "surrogate"),
    ],
    ids=lambda part: part[:12] if isinstance(part, str) else type(part).__name__,
)
def test_the_reason_names_the_kind_and_the_way_out(value: Any, reason: str) -> None:
    with pytest.raises(CodecError) as caught:
        dump_value(value)
    assert caught.value.path.startswith("value")
    assert reason in str(caught.value)


@pytest.mark.parametrize(
    ("dump", "path"),
    [
        (lambda: dump_args([1, {"a b": {1}}]), "args[1]['a b']"),
        (lambda: dump_kwargs({"order": {"lines": [1, 2, 3, Decimal(1)]}}), "kwargs.order.lines[3]"),
        (lambda: dump_value({1: {1}}, "schedule.kwargs"), "schedule.kwargs['1']"),
        (lambda: dump_value(Parcel(weight=1.0, due={1})), "value.due"),  # type: ignore[arg-type]
        (lambda: dump_value(Measured(value=float("nan"))), "value.value"),
        (lambda: dump_value(TaskResult(ok={"a": {1}})), "value.ok.a"),
        (lambda: dump_value(TaskResult(err=TaskError(data=[{1}]))), "value.err.data[0]"),
        (lambda: dump_value(["x" * 9, {"\ud800": 1}]), "value[1]"),
    ],
)
def test_the_path_knows_every_container(dump: Any, path: str) -> None:
    with pytest.raises(CodecError) as caught:
        dump()
    assert caught.value.path == path


@pytest.mark.parametrize("key", sorted(RESERVED))
def test_a_users_dict_must_not_look_like_a_stored_type(key: str) -> None:
    with pytest.raises(CodecError, match=f"args\\[0\\]: the key '{key}' is reserved"):
        dump_args([{key: True, "value": "2026-01-31"}])


def make_local_classes() -> tuple[Any, Any]:
    class Model(BaseModel):
        value: int = 1

    @dataclass
    class Data:
        value: int = 1

    return Model(), Data()


@pytest.mark.parametrize("value", make_local_classes(), ids=["pydantic", "dataclass"])
def test_classes_defined_in_functions_are_refused(value: Any) -> None:
    with pytest.raises(CodecError, match="defined inside a function; move it to the top level"):
        dump_value(value)


def test_classes_of_main_are_refused() -> None:
    model = type("Model", (BaseModel,), {"__module__": "__main__", "__qualname__": "Model"})
    with pytest.raises(CodecError, match="defined in __main__"):
        dump_value(model())


def test_a_class_that_its_name_does_not_lead_back_to_is_refused() -> None:
    shadowed = type("Order", (BaseModel,), {"__module__": "codec_models", "__qualname__": "Order"})
    nowhere = type("Nowhere", (BaseModel,), {"__module__": "codec_models", "__qualname__": "Nowhere"})
    unloaded = type("Order", (BaseModel,), {"__module__": "no_such_module", "__qualname__": "Order"})
    for cls in (shadowed, nowhere, unloaded):
        with pytest.raises(CodecError, match="does not lead back to this class"):
            dump_value(cls())


def test_a_generic_model_without_a_name_of_its_own_is_refused() -> None:
    with pytest.raises(CodecError, match=r"the name codec_models\.Box\[str\] does not lead back to this class"):
        dump_value(Box[str](content="x"))


def test_a_value_that_contains_itself_is_refused() -> None:
    in_list: list[Any] = [1]
    in_list.append({"again": in_list})
    with pytest.raises(CodecError, match=r"value\[1\]\.again: this list contains itself"):
        dump_value(in_list)
    parcel = Parcel(weight=1.0, due=None)  # type: ignore[arg-type]
    parcel.due = parcel  # type: ignore[assignment]
    with pytest.raises(CodecError, match=r"value\.due: this Parcel contains itself"):
        dump_value(parcel)


@pytest.mark.parametrize("depth", [101, 1_000, 100_000])
def test_a_value_too_deep_is_refused_with_a_short_text(depth: int) -> None:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    with pytest.raises(CodecError, match="levels deep") as caught:
        dump_value(value)
    assert len(str(caught.value)) < 200
    assert len(dump_value(_innermost(value, depth - 100))) == 201


def _innermost(value: Any, steps: int) -> Any:
    for _ in range(steps):
        value = value[0]
    return value


def test_a_caller_deep_in_its_stack_gets_the_codecs_error() -> None:
    value: Any = 1
    for _ in range(100):
        value = [value]

    def from_depth(frames: int) -> str:
        return dump_value(value) if frames == 0 else from_depth(frames - 1)

    with pytest.raises(CodecError, match="nested too deeply"):
        from_depth(sys.getrecursionlimit() - 300)


class Sabotage(Mapping[str, int]):
    def __getitem__(self, key: str) -> int:
        raise RuntimeError("no item today")

    def __iter__(self) -> Iterator[str]:
        return iter(["a"])

    def __len__(self) -> int:
        return 1


def test_exceptions_of_user_classes_become_the_codecs_error() -> None:
    with pytest.raises(CodecError, match=r"kwargs\.x: reading the value raised RuntimeError: no item today"):
        dump_kwargs({"x": Sabotage()})


json_like = st.recursive(
    st.none() | st.floats() | st.integers() | st.text(st.characters(), max_size=5) | st.binary(max_size=2) | st.uuids(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(), max_size=3) | st.integers(), inner),
    max_leaves=10,
)


@given(json_like)
def test_writing_either_gives_utf8_json_or_raises_the_codecs_error(value: Any) -> None:
    try:
        text = dump_value(value)
    except CodecError as error:
        text = str(error)
        assert text.startswith("value")
    else:
        json.loads(text, parse_constant=pytest.fail)
    assert text.encode().decode() == text


@given(json_like)
def test_writing_a_result_never_raises(value: Any) -> None:
    assert json.loads(dump_task_result(TaskResult(ok=value)))["__task_result__"] is True
