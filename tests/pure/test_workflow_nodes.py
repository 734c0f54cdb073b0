"""Nodes as users write them: directly, by a task's factory, with results of other nodes as arguments."""

from __future__ import annotations

from typing import Any

import pytest
from workflow_shop import Order, Sized, price, report, skus, total

from horsies import ErrorCode
from horsies.domain.errors import WorkflowContextMissingIdError, WorkflowValidationError
from horsies.workflow.nodes import MapNode, NodeKey, SubWorkflowNode, TaskNode, from_node


def test_the_factory_of_a_task_makes_a_node_with_the_given_options() -> None:
    before = price.node()(sku="a")
    factory = price.node(
        waits_for=[before],
        queue="mail",
        priority=7,
        allow_failed_deps=True,
        join="quorum",
        min_success=1,
        node_id="second",
    )
    node = factory(sku="b")
    assert (node.fn, node.kwargs, node.waits_for, node.args_from) == (price, {"sku": "b"}, [before], {})
    assert (node.queue, node.priority, node.allow_failed_deps) == ("mail", 7, True)
    assert (node.join, node.min_success, node.node_id, node.index) == ("quorum", 1, "second", None)
    assert node.name == "price"


def test_a_factory_can_be_called_again_and_its_nodes_share_nothing() -> None:
    factory = price.node(node_id=None)
    one, two = factory(sku="a"), factory(sku="b")
    one.waits_for = [two]
    assert (two.waits_for, two.kwargs) == ([], {"sku": "b"})


def test_results_of_nodes_as_arguments_are_dependencies_each_once() -> None:
    a, b = price.node()(sku="a"), price.node()(sku="b")
    node = total.node(waits_for=[b])(left=from_node(a), right=from_node(a), rate=2)
    assert node.args_from == {"left": a, "right": a}
    assert node.waits_for == [b, a]
    assert node.kwargs == {"rate": 2}


def test_arguments_by_position_are_refused_at_the_line_of_the_call() -> None:
    with pytest.raises(WorkflowValidationError) as caught:
        price.node()("a")
    assert caught.value.code is ErrorCode.WORKFLOW_POSITIONAL_ARGS_NOT_SUPPORTED
    assert caught.value.location is not None
    assert caught.value.location.source.strip() == 'price.node()("a")'


@pytest.mark.parametrize("thing", [None, "price", price, Order])
def test_from_node_of_something_else_is_refused(thing: Any) -> None:
    with pytest.raises(WorkflowValidationError, match="from_node") as caught:
        from_node(thing)
    assert caught.value.code is ErrorCode.WORKFLOW_INVALID_ARGS_FROM


def test_a_node_with_an_id_gives_a_key_and_one_without_says_so() -> None:
    assert TaskNode(price, node_id="here").key() == NodeKey("here")
    with pytest.raises(WorkflowContextMissingIdError):
        TaskNode(price).key()


def test_a_node_of_a_definition_has_the_name_of_its_attribute() -> None:
    assert Order.one.key() == NodeKey("one")
    assert [name for name, _ in Order.get_workflow_nodes()] == ["one", "two", "sum"]


def test_the_name_of_a_node_is_that_of_what_it_runs() -> None:
    nodes = [TaskNode(price), SubWorkflowNode(Sized), TaskNode.map(price, over=["a"])]
    assert [node.name for node in nodes] == ["price", "sized", "price"]
    assert [repr(node) for node in nodes] == ["<TaskNode 'price'>", "<SubWorkflowNode 'sized'>", "<MapNode 'price'>"]


def test_a_map_waits_for_the_node_that_it_goes_over() -> None:
    listing, other = skus.node()(), report.node()()
    short = TaskNode.map(price, over=listing, max_items=5)
    assert isinstance(short, MapNode)
    assert (short.waits_for, short.max_items, short.kwargs) == ([listing], 5, {})
    assert MapNode(price, listing, waits_for=[other]).waits_for == [other, listing]
    assert MapNode(price, listing, waits_for=[listing]).waits_for == [listing]


def test_a_node_knows_the_line_where_it_was_written() -> None:
    node = price.node()(sku="marked")
    assert node.location is not None
    assert node.location.source.strip() == 'node = price.node()(sku="marked")'
