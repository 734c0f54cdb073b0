"""The arguments that a node gets from earlier nodes; maps, with one task per item of a list."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st
from workflow_shop import Item, Parcel, app, pack, price, skus

from horsies import TaskError, TaskResult
from horsies.domain.codec import CorruptJsonError, dump_task_result, load_kwargs, load_task_result
from horsies.domain.codes import OutcomeCode, RetrievalCode
from horsies.domain.plan import (
    MAP_DEFINITION,
    MOST_EMBEDDED_BYTES,
    Meta,
    NodePlan,
    NodeRef,
    NodeTexts,
    SourceResult,
    node_kwargs,
    references,
    resolve,
    split_injection,
)
from horsies.workflow.nodes import MapNode, TaskNode
from horsies.workflow.subworkflow_plan import BuildFailed, UnreadableKwargs, child_plan, map_plan

META = Meta("parent", 1, "price")


def planned(node: MapNode[Any], *others: Any) -> NodePlan:
    """The stored node of a map, which is the last one."""
    return app.workflow("demo", [*others, node], definition_key="k").to_plan().nodes[-1]


def over_result(result: TaskResult[Any, Any], **options: Any) -> str:
    """The kwargs of a map's node when the node before has ended with this result."""
    listing = skus.node()()
    node = planned(TaskNode.map(price, over=listing, **options), listing)
    text = dump_task_result(result)
    (parameter,) = node.args_from
    source = SourceResult(NodeRef("parent", 0), "COMPLETED", text, len(text))
    return node_kwargs(node.kwargs_json, results={parameter: source}, ctx=None, meta=META)


def test_a_map_over_a_list_is_stored_with_its_items() -> None:
    node = planned(MapNode(price, ["a", "b"], queue="default", priority=7, max_items=5))
    assert (node.sub_definition_key, node.task_name, node.args_from) == (MAP_DEFINITION, "price", {})
    assert (node.queue_name, node.priority, node.task_options) == ("default", 100, None)
    assert json.loads(node.kwargs_json or "") == {
        "__horsies_map__": {
            "task": "price",
            "param": "sku",
            "task_options": '{"retry_policy":null,"good_until":null}',
            "queue": "default",
            "priority": 7,
            "max_items": 5,
            "items": ["a", "b"],
        }
    }


def test_a_map_over_a_node_takes_its_result_and_is_stored_without_items() -> None:
    listing = skus.node()()
    node = planned(TaskNode.map(price, over=listing), listing)
    assert (node.args_from, node.dependencies) == ({"__items__": 0}, (0,))
    assert "items" not in json.loads(node.kwargs_json or "")["__horsies_map__"]


def test_each_item_is_a_node_with_the_fixed_arguments_besides() -> None:
    items = [Item(sku="a"), Item(sku="b", count=2)]
    node = planned(TaskNode.map(pack, over=items, parcel=Parcel(2.5)))
    plan = child_plan(app, MAP_DEFINITION, node.kwargs_json)
    assert (plan.name, plan.definition_key, plan.on_error) == ("pack", MAP_DEFINITION, "fail")
    assert (plan.output_index, plan.success_policy) == (None, None)
    assert [item.node_id for item in plan.nodes] == ["item:0", "item:1"]
    assert all((item.task_name, item.queue_name, item.priority) == ("pack", "default", 100) for item in plan.nodes)
    assert all((item.dependencies, item.args_from, item.ctx_from) == ((), {}, None) for item in plan.nodes)
    assert all(item.task_options == '{"retry_policy":null,"good_until":null}' for item in plan.nodes)
    assert [load_kwargs(item.kwargs_json, pack.parameters.classes_for).unwrap() for item in plan.nodes] == [
        {"item": item, "parcel": Parcel(2.5)} for item in items
    ]


def test_items_of_a_list_are_copied_when_the_workflow_is_made() -> None:
    items = [Item(sku="a")]
    spec = app.workflow("demo", [TaskNode.map(pack, over=items)], definition_key="k")
    items[0].sku = "changed"
    items.append(Item(sku="more"))
    (item,) = map_plan(spec.to_plan().nodes[0].kwargs_json).nodes
    assert load_kwargs(item.kwargs_json, pack.parameters.classes_for).unwrap() == {"item": Item(sku="a")}
    assert spec.tasks[0].over == (Item(sku="a"),)  # type: ignore[union-attr]


@given(st.lists(st.one_of(st.text(), st.integers(), st.none(), st.lists(st.booleans())), max_size=20))
def test_the_items_of_a_result_are_the_arguments_of_the_tasks_in_order(items: list[Any]) -> None:
    plan = child_plan(app, MAP_DEFINITION, over_result(TaskResult(ok=items)))
    assert [load_kwargs(node.kwargs_json).unwrap()["sku"] for node in plan.nodes] == items
    assert [node.index for node in plan.nodes] == list(range(len(items)))


def test_models_in_a_result_reach_their_tasks_without_their_class_being_read() -> None:
    model = '{"__pydantic_model__":true,"module":"gone","qualname":"X","data":{}}'
    tree = f'{{"__task_result__":true,"ok":[{model}],"err":null}}'
    stored = over_result(TaskResult(ok=[])).replace(json.dumps(dump_task_result(TaskResult(ok=[]))), json.dumps(tree))
    (node,) = map_plan(stored).nodes
    assert json.loads(node.kwargs_json or "")["sku"]["module"] == "gone"


def test_no_items_are_a_workflow_without_nodes() -> None:
    assert map_plan(over_result(TaskResult(ok=[]))).nodes == ()
    assert map_plan(planned(TaskNode.map(price, over=[])).kwargs_json).nodes == ()


def test_more_items_than_allowed_are_refused_with_both_numbers() -> None:
    assert len(map_plan(over_result(TaskResult(ok=["a"] * 3), max_items=3)).nodes) == 3
    with pytest.raises(BuildFailed, match="over 4 items, but its node allows max_items=3"):
        map_plan(over_result(TaskResult(ok=["a"] * 4), max_items=3))


@pytest.mark.parametrize(
    ("result", "reason"),
    [
        (TaskResult(ok="abc"), "goes over a list; the value before it is stored as str"),
        (TaskResult(ok=None), "stored as NoneType"),
        (TaskResult(ok={"a": 1}), "stored as dict"),
        (TaskResult(err=TaskError(error_code="NO")), "has an error, and no list"),
    ],
)
def test_a_result_without_a_list_is_refused(result: TaskResult[Any, Any], reason: str) -> None:
    with pytest.raises(BuildFailed, match=reason):
        map_plan(over_result(result))


def test_a_map_whose_source_was_not_given_is_refused() -> None:
    listing = skus.node()()
    node = planned(TaskNode.map(price, over=listing), listing)
    with pytest.raises(BuildFailed, match="has no result"):
        map_plan(node.kwargs_json)


def test_a_damaged_result_is_refused() -> None:
    stored = over_result(TaskResult(ok=[])).replace('{\\"__task_result__', '{{\\"__task_result__')
    with pytest.raises(BuildFailed, match="cannot be read"):
        map_plan(stored)


@pytest.mark.parametrize(
    "stored",
    [
        None,
        "",
        "[]",
        "{}",
        '{"__horsies_map__":5}',
        '{"__horsies_map__":{"task":"price"}}',
        '{"__horsies_map__":{"task":"t","param":"p","queue":"q","priority":1,"max_items":"many"}}',
        '{"__horsies_map__":{"task":"t","param":"p","queue":"q","priority":1,"max_items":1,"items":{}}}',
    ],
)
def test_a_damaged_map_is_told_from_one_that_cannot_be_built(stored: str | None) -> None:
    with pytest.raises(UnreadableKwargs):
        child_plan(app, MAP_DEFINITION, stored)


PLACE = Meta("w-1", 4, "sum")
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
        meta=PLACE,
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
        node_kwargs(stored, results={}, ctx=None, meta=PLACE)


def read(text: str) -> dict[str, Any]:
    return load_kwargs(text).unwrap()


def test_a_skipped_dependency_arrives_as_an_error_that_says_so() -> None:
    text = node_kwargs(None, results={"left": source(2, None, status="SKIPPED")}, ctx=None, meta=PLACE)
    error = read(text)["left"].err_value
    assert error.error_code is OutcomeCode.UPSTREAM_SKIPPED
    assert error.data == {"dependency_index": 2}


def test_an_ended_dependency_without_a_result_arrives_as_an_error() -> None:
    text = node_kwargs(None, results={"left": source(2, None)}, ctx=None, meta=PLACE)
    assert read(text)["left"].err_value.error_code is RetrievalCode.RESULT_NOT_AVAILABLE


def test_a_large_result_is_not_copied_but_referred_to() -> None:
    large = dump_task_result(TaskResult(ok="x" * MOST_EMBEDDED_BYTES))
    text = node_kwargs(None, results={"left": source(0, large), "right": source(1, ONE)}, ctx=None, meta=PLACE)
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
    text = node_kwargs(None, results={"left": unread}, ctx={"a": unread}, meta=PLACE)
    kwargs = read(resolve(text, {}))
    assert kwargs["left"].err_value.error_code is RetrievalCode.RESULT_NOT_AVAILABLE
    context = split_injection(kwargs).context
    assert context is not None
    assert load_task_result(context["results_by_id"]["a"]) == kwargs["left"]
    assert context["summaries_by_id"] == {}


def test_large_results_and_summaries_of_the_context_come_back_too() -> None:
    large = dump_task_result(TaskResult(ok="x" * MOST_EMBEDDED_BYTES))
    summary = json.dumps({"status": "COMPLETED", "output": "y" * MOST_EMBEDDED_BYTES})
    text = node_kwargs(None, results={}, ctx={"a": source(0, large, summary=summary)}, meta=PLACE)
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
    text = node_kwargs(None, results=sources, ctx=None, meta=PLACE)
    assert len(text) < MOST_EMBEDDED_BYTES + 200 * (len(sizes) + 1)
    found = {NodeRef("w-1", index): NodeTexts(text, None) for index, text in enumerate(texts)}
    kwargs = read(resolve(text, found))
    assert [kwargs[f"p{index}"].ok_value for index in range(len(sizes))] == ["x" * size for size in sizes]


def test_a_result_that_talks_about_references_is_none() -> None:
    sly = dump_task_result(TaskResult(ok='"__horsies_taskresult__":true,"node":{"workflow_id":"w","task_index":1}'))
    text = node_kwargs(None, results={"left": source(0, sly)}, ctx=None, meta=PLACE)
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
