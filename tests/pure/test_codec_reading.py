"""Reading rows written by others, damaged or malicious, and displaying them without imports."""

from __future__ import annotations

import json
import sys
from datetime import UTC, date, datetime, time
from pathlib import Path
from typing import Any

import pytest
from codec_models import ORDER_TEXT, Order, PaymentError, load_args, load_kwargs, load_value
from hypothesis import given, strategies as st

from horsies.domain.codec import (
    CodecError,
    CorruptJsonError,
    HydrationError,
    Labelled,
    clean_text,
    dump_task_error,
    dump_value,
    load_for_display,
)
from horsies.domain.codes import ContractCode, OperationalErrorCode, OutcomeCode
from horsies.domain.result import Err, Ok
from horsies.domain.tags import RESERVED
from horsies.domain.task_result import TaskError, TaskResult


def tagged(tag: str, module: Any, qualname: Any, data: Any) -> str:
    return json.dumps({tag: True, "module": module, "qualname": qualname, "data": data})


def model(qualname: Any, data: Any, module: Any = "codec_models") -> str:
    return tagged("__pydantic_model__", module, qualname, data)


def dataclass(qualname: Any, data: Any, module: Any = "codec_models") -> str:
    return tagged("__dataclass__", module, qualname, data)


CANNOT_BE_BUILT = [
    model("Gone", {}),
    model("Order.Gone", {}),
    model("Order", {"number": "seven"}),
    model("Order", []),
    model("Picky", {"value": 0}),
    model("Parcel", {"weight": 1.0, "due": None}),
    model("NotAModel", {}),
    model("a_function", {}),
    model("Colour", "red"),
    model("Order.model_construct", {}),
    model("", {}),
    model(None, {}),
    model("Order", {}, ""),
    model("Order", {}, None),
    model("Order", {}, ".codec_models"),
    model("Order", {}, "codec_models.deeper"),
    model("Order", {}, "no_such_module"),
    model("Order", {}, "__main__"),
    model("path.join", {}, "os"),
    '{"__pydantic_model__":true}',
    dataclass("Gone", {}),
    dataclass("Parcel", {"weight": 1.0}),
    dataclass("Parcel", []),
    dataclass("Parcel", None),
    dataclass("Order", {"number": 1, "placed": "2026-01-31T08:00:00Z"}),
    dataclass("Refusing", {"value": -1}),
    dataclass("NotAModel", {}),
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
    with pytest.raises(CorruptJsonError, match="not valid JSON"):
        load_value(text)


def test_json_too_deep_to_be_built_is_a_codec_error() -> None:
    with pytest.raises(CodecError):
        load_value("[" * 900 + "]" * 900)


@pytest.mark.parametrize("text", [*NOT_JSON, "{}", "7", "null", '"[]"'])
def test_args_that_are_no_array_are_an_error_value(text: str) -> None:
    match load_args(text):
        case Err(error):
            assert error.error_code is OperationalErrorCode.WORKER_SERIALIZATION_ERROR
            assert "args" in str(error.message)
        case Ok(value):
            pytest.fail(f"{value} was accepted")


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
        "gone": {"__horsies_taskresult__": True, "data": f'{{"ok":{model("Gone", {})},"err":null}}'},
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


@pytest.mark.parametrize("text", ["", "{", "NaN", "[" * 100_000])
def test_text_that_is_not_json_is_an_error(text: str) -> None:
    with pytest.raises(CorruptJsonError):
        load_for_display(text)


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
