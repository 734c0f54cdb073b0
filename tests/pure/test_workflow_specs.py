"""Nodes as users write them, and how a list of them becomes immutable copies and the plan that is stored."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from task_apps import make_app, make_custom_app
from workflow_shop import Item, Order, app, orders, pack_all, price, report, skus, total

from horsies import ErrorCode, MultipleValidationErrors, OnError, TaskError, TaskResult
from horsies.domain.errors import HorsiesError, WorkflowContextMissingIdError, WorkflowValidationError
from horsies.workflow.graph import slugify
from horsies.workflow.nodes import MapNode, NodeKey, SuccessCase, SuccessPolicy, TaskNode, from_node
from horsies.workflow.spec import WorkflowSpec

OPTIONS = '{"retry_policy":null,"good_until":null}'


def make(*nodes: Any, name: str = "demo", **options: Any) -> WorkflowSpec[Any]:
    return app.workflow(name, list(nodes), definition_key="tests.demo", **options)


def test_nodes_are_numbered_and_named_and_the_users_nodes_learn_it() -> None:
    first, second = price.node()(sku="a"), TaskNode(price, kwargs={"sku": "b"}, node_id="mine")
    spec = make(first, second, name="my demo!")
    assert [(node.index, node.node_id) for node in spec.tasks] == [(0, "my_demo:0"), (1, "mine")]
    assert [(node.index, node.node_id) for node in (first, second)] == [(0, "my_demo:0"), (1, "mine")]
    assert first.key().node_id == "my_demo:0"


@pytest.mark.parametrize(
    ("text", "slug"), [("a b", "a_b"), ("täglich/1", "tglich1"), ("A-z_0:9.", "A-z_0:9."), ("", "_"), ("§", "_")]
)
def test_a_slug_holds_what_a_node_id_may_hold(text: str, slug: str) -> None:
    assert slugify(text) == slug


def test_a_node_that_was_numbered_once_can_stand_at_another_place_of_another_workflow() -> None:
    a, b = price.node()(sku="a"), price.node()(sku="b")
    make(a, b)
    spec = make(b, a)
    assert [node.node_id for node in spec.tasks] == ["demo:0", "demo:1"]
    assert [node.kwargs["sku"] for node in spec.tasks] == ["b", "a"]


def test_a_finished_workflow_can_be_the_source_of_nodes_and_stays_as_it_is() -> None:
    spec = make(price.node()(sku="a"))
    again = make(price.node()(sku="first"), *spec.tasks)
    assert [node.node_id for node in again.tasks] == ["demo:0", "demo:1"]
    assert spec.tasks[0].node_id == "demo:0"


def test_the_copies_refer_to_each_other_and_not_to_the_nodes_of_the_user() -> None:
    a = price.node()(sku="a")
    b = total.node(workflow_ctx_from=[a])(left=from_node(a))
    listing = skus.node()()
    mapped = TaskNode.map(price, over=listing)
    spec = make(b, a, mapped, listing, output=b)
    copies = spec.tasks
    assert copies[0].waits_for == (copies[1],)
    assert copies[0].args_from == {"left": copies[1]}
    assert copies[0].workflow_ctx_from == (copies[1],)
    assert spec.output is copies[0]
    assert copies[2].over is copies[3]  # type: ignore[union-attr]
    assert not set(map(id, copies)) & set(map(id, (a, b, listing, mapped)))


def test_values_are_copied_so_that_later_changes_do_not_reach_them() -> None:
    item, sizes = Item(sku="a"), {"weights": [1, 2]}
    node = TaskNode(pack_all, kwargs={"item": item, "sizes": sizes})
    spec = make(node)
    item.sku = "changed"
    sizes["weights"].append(3)
    kwargs = spec.tasks[0].kwargs
    assert kwargs["item"] == Item(sku="a")
    assert kwargs["sizes"]["weights"] == (1, 2)
    kwargs["item"].sku = "changed in the copy"
    stored = json.loads(spec.to_plan().nodes[0].kwargs_json or "")
    assert stored["item"]["data"] == {"sku": "a", "count": 1}
    assert stored["sizes"] == {"weights": [1, 2]}


def test_nothing_of_a_finished_workflow_can_be_set() -> None:
    first = price.node()(sku="a")
    spec = make(first, total.node()(left=from_node(first)), output=first)
    with pytest.raises(AttributeError, match="name"):
        spec.name = "other"
    with pytest.raises(AttributeError):
        del spec.name
    for node in spec.tasks:
        with pytest.raises(AttributeError, match="queue"):
            node.queue = "other"  # type: ignore[union-attr]
        with pytest.raises(AttributeError):
            del node.node_id
        with pytest.raises(TypeError):
            node.kwargs["sku"] = "b"  # type: ignore[index]
        with pytest.raises(TypeError):
            node.args_from["left"] = node  # type: ignore[index]
        assert isinstance(node.waits_for, tuple)
    assert isinstance(spec.tasks, tuple)
    first.queue = "the user's own node can still be changed"


def test_a_plan_holds_what_the_tables_hold() -> None:
    until = datetime(2030, 1, 2, tzinfo=UTC)
    a = price.node(priority=3, good_until=until)(sku="a")
    b = price.node(join="any", waits_for=[a], allow_failed_deps=True)(sku="b")
    c = total.node(join="quorum", min_success=1, waits_for=[a], workflow_ctx_from=[b, a])(
        left=from_node(a), right=from_node(b)
    )
    c.args_from = {"right": b}
    c.kwargs = {"left": TaskResult(ok=1)}
    spec = make(
        a,
        b,
        c,
        output=c,
        on_error=OnError.PAUSE,
        success_policy=SuccessPolicy([SuccessCase([c]), SuccessCase([a, "demo:1"])], optional=[b]),
    )
    plan = spec.to_plan()
    assert (plan.name, plan.definition_key, plan.on_error, plan.output_index) == ("demo", "tests.demo", "pause", 2)
    assert (
        plan.success_policy == '{"cases":[{"required_indices":[2]},{"required_indices":[0,1]}],"optional_indices":[1]}'
    )
    one, two, three = plan.nodes
    assert (one.index, one.node_id, one.task_name, one.kwargs_json) == (0, "demo:0", "price", '{"sku":"a"}')
    assert (one.queue_name, one.priority, one.dependencies) == ("default", 3, ())
    assert one.task_options == '{"retry_policy":null,"good_until":"2030-01-02T00:00:00+00:00"}'
    assert (two.dependencies, two.join, two.allow_failed_deps, two.priority) == ((0,), "any", True, 100)
    assert (three.dependencies, three.join, three.min_success) == ((0, 1), "quorum", 1)
    assert (three.args_from, three.ctx_from, three.task_options) == ({"right": 1}, ("demo:1", "demo:0"), OPTIONS)
    assert not any(node.is_subworkflow for node in plan.nodes)


def test_a_sub_workflow_is_planned_with_its_key_and_a_plain_queue() -> None:
    plan = orders(2).to_plan()
    order, sized = plan.nodes[:2]
    assert (order.task_name, order.sub_definition_key, order.queue_name, order.priority) == (
        "order",
        "shop.order",
        "default",
        100,
    )
    assert (order.task_options, order.kwargs_json, order.node_id) == (None, "{}", "order")
    assert (sized.sub_definition_key, sized.kwargs_json, sized.args_from) == (
        "shop.sized",
        '{"count":2}',
        {"before": 0},
    )


def test_the_queue_of_a_node_goes_before_that_of_its_task_and_brings_its_priority() -> None:
    custom = make_custom_app()

    @custom.task("letter", queue_name="mail")
    def letter() -> TaskResult[None, TaskError]:
        return TaskResult(ok=None)

    nodes = [letter.node()(), letter.node(queue="reports")(), letter.node(priority=1)()]
    plan = custom.workflow("w", nodes, definition_key="k").to_plan()
    assert [(node.queue_name, node.priority) for node in plan.nodes] == [("mail", 3), ("reports", 50), ("mail", 1)]
    assert [node.queue for node in nodes] == [None, "reports", None]


def test_without_an_application_a_workflow_can_be_made_but_not_started() -> None:
    spec = WorkflowSpec("loose", [price.node()(sku="a")])
    assert (spec.broker, spec.definition_key, spec.on_error) == (None, None, OnError.FAIL)
    with pytest.raises(MultipleValidationErrors) as caught:
        spec.to_plan()
    assert [error.code for error in caught.value.report.errors] == [
        ErrorCode.WORKFLOW_UNRESOLVED_QUEUE,
        ErrorCode.WORKFLOW_UNRESOLVED_PRIORITY,
    ]
    answer = spec.start()
    assert answer.err_value.code == "BROKER_NOT_CONFIGURED"


def test_the_broker_is_that_of_the_application_at_the_time_of_the_start() -> None:
    other = make_app()
    spec = other.workflow("w", [price.node()(sku="a")], definition_key="k")
    assert other._broker is None
    assert spec.broker is other.get_broker()
    other._broker = None
    assert spec.broker is other.get_broker()


async def test_a_start_while_sends_are_suppressed_is_refused_with_an_id() -> None:
    other = make_app()
    spec = other.workflow("w", [price.node()(sku="a")], definition_key="k")
    other.suppress_sends()
    error = (await spec.start_async("my-id")).err_value
    assert (error.code, error.workflow_id, error.workflow_name) == ("VALIDATION_FAILED", "my-id", "w")
    assert spec.retry_start(error).err_value.code == "VALIDATION_FAILED"
    assert (await spec.retry_start_async(error)).err_value.code == "VALIDATION_FAILED"


def test_a_thousand_nodes_in_a_chain_are_checked_without_recursion() -> None:
    nodes = [price.node()(sku="0")]
    for number in range(1, 1_200):
        nodes.append(price.node(waits_for=[nodes[-1]])(sku=str(number)))
    assert len(make(*nodes).to_plan().nodes) == 1_200
    nodes[0].waits_for = [nodes[-1]]
    with pytest.raises(HorsiesError):
        make(*nodes)


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


def test_a_map_waits_for_the_node_that_it_goes_over() -> None:
    listing, other = skus.node()(), report.node()()
    short = TaskNode.map(price, over=listing, max_items=5)
    assert isinstance(short, MapNode)
    assert (short.waits_for, short.max_items, short.kwargs) == ([listing], 5, {})
    assert MapNode(price, listing, waits_for=[other]).waits_for == [other, listing]
    assert MapNode(price, listing, waits_for=[listing]).waits_for == [listing]
