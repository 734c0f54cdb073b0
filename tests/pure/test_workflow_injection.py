"""The arguments that a node's task gets from earlier nodes: documented texts, and references to large ones."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from horsies.domain.codec import CorruptJsonError, dump_task_result, load_kwargs, load_task_result
from horsies.domain.codes import OutcomeCode, RetrievalCode
from horsies.domain.plan import (
    MOST_EMBEDDED_BYTES,
    Meta,
    NodeRef,
    NodeTexts,
    SourceResult,
    node_kwargs,
    references,
    resolve,
    split_injection,
)
from horsies.domain.task_result import TaskResult

META = Meta("w-1", 4, "sum")
ONE = '{"__task_result__":true,"ok":1,"err":null}'


def source(index: int, text: str | None, *, status: str = "COMPLETED", summary: str | None = None) -> SourceResult:
    return SourceResult(
        NodeRef("w-1", index), status, text, len((text or "").encode()), summary, len((summary or "").encode())
    )


def test_the_kwargs_of_a_node_are_stored_as_documented() -> None:
    text = node_kwargs(
        '{"threshold":3}',
        results={"left": source(0, ONE)},
        ctx={"demo:1": source(1, ONE), "child": source(2, ONE, summary='{"status":"COMPLETED"}')},
        meta=META,
    )
    assert text == (
        '{"threshold":3,'
        '"left":{"__horsies_taskresult__":true,"data":"{\\"__task_result__\\":true,\\"ok\\":1,\\"err\\":null}"},'
        '"__horsies_workflow_ctx__":{"workflow_id":"w-1","task_index":4,"task_name":"sum",'
        '"results_by_id":{"demo:1":"{\\"__task_result__\\":true,\\"ok\\":1,\\"err\\":null}",'
        '"child":"{\\"__task_result__\\":true,\\"ok\\":1,\\"err\\":null}"},'
        '"summaries_by_id":{"child":"{\\"status\\":\\"COMPLETED\\"}"}},'
        '"__horsies_workflow_meta__":{"workflow_id":"w-1","task_index":4,"task_name":"sum"}}'
    )


@pytest.mark.parametrize("stored", ["[1]", "{", "3"])
def test_damaged_kwargs_of_a_node_are_told_apart(stored: str) -> None:
    with pytest.raises(CorruptJsonError, match="task_kwargs"):
        node_kwargs(stored, results={}, ctx=None, meta=META)


def read(text: str) -> dict[str, Any]:
    return load_kwargs(text).unwrap()


def test_a_skipped_dependency_arrives_as_an_error_that_says_so() -> None:
    text = node_kwargs(None, results={"left": source(2, None, status="SKIPPED")}, ctx=None, meta=META)
    error = read(text)["left"].err_value
    assert error.error_code is OutcomeCode.UPSTREAM_SKIPPED
    assert error.data == {"dependency_index": 2}


def test_an_ended_dependency_without_a_result_arrives_as_an_error() -> None:
    text = node_kwargs(None, results={"left": source(2, None)}, ctx=None, meta=META)
    assert read(text)["left"].err_value.error_code is RetrievalCode.RESULT_NOT_AVAILABLE


def test_a_large_result_is_not_copied_but_referred_to() -> None:
    large = dump_task_result(TaskResult(ok="x" * MOST_EMBEDDED_BYTES))
    text = node_kwargs(None, results={"left": source(0, large), "right": source(1, ONE)}, ctx=None, meta=META)
    assert json.loads(text)["left"] == {
        "__horsies_taskresult__": True,
        "node": {"workflow_id": "w-1", "task_index": 0},
    }
    assert references(text) == {NodeRef("w-1", 0)}
    resolved = resolve(text, {NodeRef("w-1", 0): NodeTexts(large, None)})
    assert read(resolved)["left"] == load_task_result(large)
    assert read(resolved)["right"] == TaskResult(ok=1)
    assert references(resolved) == frozenset()


def test_a_reference_to_a_node_that_is_gone_becomes_an_error() -> None:
    unread = SourceResult(NodeRef("w-1", 0), "COMPLETED", None, 10_000_000, None, 10_000_000)
    text = node_kwargs(None, results={"left": unread}, ctx={"a": unread}, meta=META)
    kwargs = read(resolve(text, {}))
    assert kwargs["left"].err_value.error_code is RetrievalCode.RESULT_NOT_AVAILABLE
    context = split_injection(kwargs).context
    assert context is not None
    assert load_task_result(context["results_by_id"]["a"]) == kwargs["left"]
    assert context["summaries_by_id"] == {}


def test_large_results_and_summaries_of_the_context_come_back_too() -> None:
    large = dump_task_result(TaskResult(ok="x" * MOST_EMBEDDED_BYTES))
    summary = json.dumps({"status": "COMPLETED", "output": "y" * MOST_EMBEDDED_BYTES})
    text = node_kwargs(None, results={}, ctx={"a": source(0, large, summary=summary)}, meta=META)
    assert len(text) < 1_000
    resolved = resolve(text, {NodeRef("w-1", 0): NodeTexts(large, summary)})
    context = split_injection(read(resolved)).context
    assert context is not None
    assert context["results_by_id"] == {"a": large}
    assert context["summaries_by_id"] == {"a": summary}


@given(sizes=st.lists(st.integers(0, 40_000), max_size=30))
def test_the_kwargs_of_a_node_stay_small_however_many_nodes_stand_before_it(sizes: list[int]) -> None:
    texts = [dump_task_result(TaskResult(ok="x" * size)) for size in sizes]
    sources = {f"p{index}": source(index, text) for index, text in enumerate(texts)}
    text = node_kwargs(None, results=sources, ctx=None, meta=META)
    assert len(text) < MOST_EMBEDDED_BYTES + 200 * (len(sizes) + 1)
    found = {NodeRef("w-1", index): NodeTexts(text, None) for index, text in enumerate(texts)}
    kwargs = read(resolve(text, found))
    assert [kwargs[f"p{index}"].ok_value for index in range(len(sizes))] == ["x" * size for size in sizes]


def test_a_result_that_talks_about_references_is_none() -> None:
    sly = dump_task_result(TaskResult(ok='"__horsies_taskresult__":true,"node":{"workflow_id":"w","task_index":1}'))
    text = node_kwargs(None, results={"left": source(0, sly)}, ctx=None, meta=META)
    assert references(text) == frozenset()


@pytest.mark.parametrize("text", [None, "", "{", '{"a":1}', '{"__horsies_taskresult__":true,"node":{}'])
def test_kwargs_without_references_need_no_reading(text: str | None) -> None:
    assert references(text) == frozenset()


@pytest.mark.parametrize(
    "node", ["{}", '{"workflow_id":1,"task_index":1}', '{"workflow_id":"w","task_index":"1"}', '{"workflow_id":"w"}']
)
def test_a_damaged_reference_is_none(node: str) -> None:
    assert references(f'{{"a":{{"__horsies_taskresult__":true,"node":{node}}}}}') == frozenset()


def test_what_was_put_beside_the_arguments_is_taken_apart() -> None:
    injection = split_injection({"a": 1, "__horsies_workflow_ctx__": {"x": 1}, "__horsies_workflow_meta__": {"y": 2}})
    assert (injection.kwargs, injection.context, injection.meta) == ({"a": 1}, {"x": 1}, {"y": 2})
    plain = split_injection({"a": 1, "__horsies_workflow_meta__": "damaged"})
    assert (plain.kwargs, plain.context, plain.meta) == ({"a": 1}, None, None)
