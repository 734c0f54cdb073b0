"""Maps, with one task per item of a list: the stored node, and the workflow that is built from it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st
from workflow_shop import Item, Parcel, app, pack, price, skus

from horsies import TaskError, TaskResult
from horsies.domain.codec import dump_task_result, load_kwargs
from horsies.domain.plan import MAP_DEFINITION, Meta, NodePlan, NodeRef, SourceResult, node_kwargs
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
