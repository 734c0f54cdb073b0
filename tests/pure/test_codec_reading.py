"""Rows of others, damaged or malicious, are read and displayed without imports; values that cannot be stored."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from codec_models import (
    ORDER_TEXT,
    Basket,
    Box,
    Measured,
    NotAModel,
    Order,
    Parcel,
    PaymentError,
    Plain,
    load_args,
    load_kwargs,
    load_value,
)
from hypothesis import given, strategies as st
from pydantic import BaseModel

from horsies.domain.codec import (
    CodecError,
    CorruptJsonError,
    HydrationError,
    Labelled,
    clean_text,
    dump_args,
    dump_kwargs,
    dump_task_error,
    dump_task_result,
    dump_value,
    load_for_display,
)
from horsies.domain.codes import ContractCode, OperationalErrorCode, OutcomeCode
from horsies.domain.tags import RESERVED
from horsies.domain.task_result import TaskError, TaskResult


def tagged(tag: str, module: Any, qualname: Any, data: Any) -> str:
    return json.dumps({tag: True, "module": module, "qualname": qualname, "data": data})


def of_model(qualname: Any, data: Any, module: Any = "codec_models") -> str:
    return tagged("__pydantic_model__", module, qualname, data)


def of_dataclass(qualname: Any, data: Any, module: Any = "codec_models") -> str:
    return tagged("__dataclass__", module, qualname, data)


CANNOT_BE_BUILT = [
    of_model("Gone", {}),
    of_model("Order.Gone", {}),
    of_model("Order", {"number": "seven"}),
    of_model("Order", []),
    of_model("Picky", {"value": 0}),
    of_model("Parcel", {"weight": 1.0, "due": None}),
    of_model("NotAModel", {}),
    of_model("a_function", {}),
    of_model("Colour", "red"),
    of_model("Order.model_construct", {}),
    of_model("", {}),
    of_model(None, {}),
    of_model("Order", {}, ""),
    of_model("Order", {}, None),
    of_model("Order", {}, ".codec_models"),
    of_model("Order", {}, "codec_models.deeper"),
    of_model("Order", {}, "no_such_module"),
    of_model("Order", {}, "__main__"),
    of_model("path.join", {}, "os"),
    '{"__pydantic_model__":true}',
    of_dataclass("Gone", {}),
    of_dataclass("Parcel", {"weight": 1.0}),
    of_dataclass("Parcel", []),
    of_dataclass("Parcel", None),
    of_dataclass("Order", {"number": 1, "placed": "2026-01-31T08:00:00Z"}),
    of_dataclass("Refusing", {"value": -1}),
    of_dataclass("NotAModel", {}),
    '{"__datetime__":true,"value":"yesterday"}',
    '{"__datetime__":true,"value":7}',
    '{"__datetime__":true}',
    '{"__date__":true,"value":"2026-02-31"}',
    '{"__time__":true,"value":"25:00"}',
    '{"__task_error__":true,"message":7}',
]

NOT_JSON = ["", "{", "nul", "NaN", "[Infinity]", "-Infinity", "[1,]", "1" * 5_000, "[" * 100_000, '{"a":1} x']


@pytest.mark.parametrize("text", CANNOT_BE_BUILT)
def test_what_cannot_be_built_is_a_hydration_error(text: str) -> None:
    with pytest.raises(HydrationError) as caught:
        load_value(f'{{"at":[{text}]}}')
    assert caught.value.path.startswith("value.at[0]")


@pytest.mark.parametrize("text", NOT_JSON)
def test_what_is_not_json_is_corrupt(text: str) -> None:
    for load in (load_value, load_for_display):
        with pytest.raises(CorruptJsonError, match="not valid JSON"):
            load(text)


def test_json_too_deep_to_be_built_is_a_codec_error() -> None:
    with pytest.raises(CodecError):
        load_value("[" * 900 + "]" * 900)


@pytest.mark.parametrize("text", [*NOT_JSON, "{}", "7", "null", '"[]"'])
def test_args_that_are_no_array_are_an_error_value(text: str) -> None:
    error = load_args(text).unwrap_err()
    assert error.error_code is OperationalErrorCode.WORKER_SERIALIZATION_ERROR
    assert "args" in str(error.message)


@pytest.mark.parametrize("text", [*NOT_JSON, "[]", "7", "null", '"{}"'])
def test_kwargs_that_are_no_object_are_an_error_value(text: str) -> None:
    assert load_kwargs(text).unwrap_err().error_code is OperationalErrorCode.WORKER_SERIALIZATION_ERROR


@pytest.mark.parametrize("text", CANNOT_BE_BUILT)
def test_arguments_that_cannot_be_built_are_an_error_value_that_says_where(text: str) -> None:
    error = load_args(f"[1,{text}]").unwrap_err()
    assert error.error_code is OperationalErrorCode.WORKER_SERIALIZATION_ERROR
    assert "args[1]" in str(error.message)
    error = load_kwargs(f'{{"order":{text}}}').unwrap_err()
    assert error.error_code is OperationalErrorCode.WORKER_SERIALIZATION_ERROR
    assert "kwargs.order" in str(error.message)


def test_results_of_earlier_nodes_arrive_as_results() -> None:
    stored = {
        "threshold": 3,
        "left": {"__horsies_taskresult__": True, "data": '{"__task_result__":true,"ok":1,"err":null}'},
        "gone": {"__horsies_taskresult__": True, "data": f'{{"ok":{of_model("Gone", {})},"err":null}}'},
        "corrupt": {"__horsies_taskresult__": True, "data": "{"},
        "order": json.loads(ORDER_TEXT),
        "__horsies_workflow_meta__": {"workflow_id": "w", "task_index": 4, "task_name": "sum"},
    }
    kwargs = load_kwargs(json.dumps(stored)).unwrap()
    assert list(kwargs) == list(stored)
    assert kwargs["threshold"] == 3
    assert kwargs["left"] == TaskResult(ok=1)
    assert kwargs["gone"].err.error_code is ContractCode.PYDANTIC_HYDRATION_ERROR
    assert kwargs["corrupt"].err.error_code is OperationalErrorCode.BROKER_ERROR
    assert isinstance(kwargs["order"], Order)
    assert kwargs["__horsies_workflow_meta__"] == stored["__horsies_workflow_meta__"]


ORDER = Labelled("codec_models.Order", {"number": 7, "placed": "2026-11-18T06:31:06Z"})
MOMENTS = {"at": datetime(2026, 1, 31, tzinfo=UTC), "on": date(2026, 1, 31), "daily": time(2, 30)}


def test_showing_a_model_imports_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "codec_explodes.py").write_text("raise RuntimeError('imported')\n")
    monkeypatch.syspath_prepend(tmp_path)
    for tag in ("__pydantic_model__", "__dataclass__"):
        text = ORDER_TEXT.replace("codec_models", "codec_explodes").replace("__pydantic_model__", tag)
        before = set(sys.modules)
        shown = load_for_display(f"[{text}]")
        assert set(sys.modules) == before
        assert shown == [Labelled("codec_explodes.Order", ORDER.data)]
    with pytest.raises(RuntimeError, match="imported"):
        __import__("codec_explodes")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (dump_value({"a": [1, None, "x"]}), {"a": [1, None, "x"]}),
        (dump_value(MOMENTS), MOMENTS),
        (ORDER_TEXT, ORDER),
        (dump_value(TaskResult(ok=load_value(ORDER_TEXT))), Labelled("TaskResult", {"ok": ORDER})),
        (
            dump_value(TaskResult(err=TaskError(error_code=OutcomeCode.TASK_EXPIRED))),
            Labelled(
                "TaskResult",
                {"err": Labelled("TaskError", {"error_code": "TASK_EXPIRED", "data": None, "message": None})},
            ),
        ),
        (
            dump_task_error(PaymentError(error_code="MINE", order=load_value(ORDER_TEXT))),
            Labelled(
                "codec_models.PaymentError",
                {"error_code": "MINE", "data": None, "message": None, "order": ORDER, "attempts": 1},
            ),
        ),
        (
            json.dumps({"left": {"__horsies_taskresult__": True, "data": dump_value(TaskResult(ok=1))}}),
            {"left": Labelled("TaskResult", {"ok": 1})},
        ),
        (
            '{"__pydantic_model__":true,"module":"m","qualname":"Q","data":{"__date__":true,"value":"2026-01-31"}}',
            Labelled("m.Q", {"__date__": True, "value": "2026-01-31"}),
        ),
        (
            '{"__dataclass__":true,"module":"m","qualname":"Q","data":{"due":{"__date__":true,"value":"2026-01-31"}}}',
            Labelled("m.Q", {"due": date(2026, 1, 31)}),
        ),
        ('{"ok":1,"err":null}', {"ok": 1, "err": None}),
    ],
)
def test_every_tag_is_shown_as_what_it_stands_for(text: str, shown: Any) -> None:
    assert load_for_display(text) == shown


@pytest.mark.parametrize(
    "stored",
    [
        {"__datetime__": True, "value": "yesterday"},
        {"__date__": True},
        {"__time__": True, "value": 7},
        {"__horsies_taskresult__": True, "data": "{"},
        {"__horsies_taskresult__": True},
        {"__datetime__": 1, "value": "2026-01-31"},
    ],
)
def test_broken_tags_are_shown_as_they_stand(stored: dict[str, Any]) -> None:
    assert load_for_display(json.dumps([stored])) == [stored]


json_trees = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.text(max_size=3)
            | st.sampled_from([*sorted(RESERVED), "data", "value", "ok", "err", "module", "qualname"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
)


@given(json_trees)
def test_json_without_a_tag_is_shown_as_it_stands_and_any_other_too_without_its_objects(tree: Any) -> None:
    shown = load_for_display(json.dumps(tree))
    if not any(f'"{tag}"' in json.dumps(tree) for tag in RESERVED):
        assert shown == tree
    assert isinstance(shown, Labelled | datetime | date | time | list | dict | str | int | None)


@given(st.text(st.characters(), max_size=300), st.integers(0, 200))
def test_clean_text_keeps_the_limit_and_fits_a_text_column(text: str, limit: int) -> None:
    cleaned = clean_text(text, limit)
    assert len(cleaned) <= limit
    assert "\0" not in cleaned
    assert cleaned.encode().decode() == cleaned
    if len(text) <= limit and "\0" not in text and text.isprintable():
        assert cleaned == text


def test_clean_text_keeps_both_ends_and_says_that_it_cut() -> None:
    cleaned = clean_text("first" + "x" * 1_000 + "last", 60)
    assert cleaned.startswith("first")
    assert cleaned.endswith("last")
    assert " … [shortened from 1009 characters] … " in cleaned


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
    for _ in range(depth - 100):
        value = value[0]
    assert len(dump_value(value)) == 201


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
