"""Reading rows written by others, damaged or malicious."""

from __future__ import annotations

import json
from typing import Any

import pytest
from codec_models import ORDER_TEXT, Order, load_args, load_kwargs, load_value

from horsies.domain.codec import CodecError, CorruptJsonError, HydrationError
from horsies.domain.codes import ContractCode, OperationalErrorCode
from horsies.domain.result import Err, Ok
from horsies.domain.task_result import TaskResult


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
