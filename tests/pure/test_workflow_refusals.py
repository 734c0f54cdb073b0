"""Every error in a workflow has a code, a place and a remedy, and all errors are reported together."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest
from hypothesis import given, strategies as st
from task_apps import make_app
from workflow_shop import Order, Sized, app, pack, price, report, skus, total

from horsies import MultipleValidationErrors, TaskError, TaskResult
from horsies.domain.errors import HorsiesError
from horsies.workflow.context import WorkflowContext
from horsies.workflow.nodes import (
    MapNode,
    NodeKey,
    SubWorkflowNode,
    SuccessCase,
    SuccessPolicy,
    TaskNode,
    from_node,
)


def refusal(*nodes: Any, name: str = "demo", **options: Any) -> list[HorsiesError]:
    """The errors of a workflow of these nodes; each has a place and a remedy."""
    with pytest.raises(HorsiesError) as caught:
        app.workflow(name, list(nodes), **{"definition_key": "tests.demo", **options})
    error = caught.value
    errors = list(error.report.errors) if isinstance(error, MultipleValidationErrors) else [error]
    assert all(each.help_text and each.location and each.location.file == __file__ for each in errors)
    return errors


def only(*nodes: Any, **options: Any) -> tuple[str, str]:
    """Number and message of the only error."""
    (error,) = refusal(*nodes, **options)
    return str(error.code), error.message


def root(sku: str = "a", **options: Any) -> TaskNode[int]:
    return price.node(**options)(sku=sku)


@pytest.mark.parametrize("thing", [price, None, price.node(), Order, [price.node()(sku="a")]])
def test_002_what_is_no_node_is_told_by_its_place_in_the_list(thing: Any) -> None:
    code, message = only(root(), thing)
    assert code == "HRS-002"
    assert message.startswith("tasks[1] of workflow 'demo' is")


def test_003_the_longest_node_id_is_accepted() -> None:
    assert app.workflow("demo", [root(node_id="x" * 128)], definition_key="k").tasks[0].node_id == "x" * 128


def test_004_a_node_cannot_stand_in_the_list_twice() -> None:
    node = root()
    (error,) = refusal(node, node)
    assert (error.code, error.notes) == ("HRS-004", ["they are tasks[0], tasks[1]"])
    named = root(node_id="a")
    assert only(named, named) == ("HRS-004", "<TaskNode 'a'> is in the list 2 times")


def test_ids_are_judged_alone_because_other_messages_use_them() -> None:
    errors = refusal(root(node_id="a b"), root(node_id="x"), root(node_id="x"), price.node()(), output=root())
    assert [error.code for error in errors] == ["HRS-003", "HRS-004"]


def test_005_and_007_a_circle_is_told_with_its_nodes() -> None:
    a, b, c = root(node_id="a"), root(node_id="b"), root(node_id="c")
    a.waits_for, b.waits_for, c.waits_for = [c], [a], [b]
    errors = refusal(a, b, c)
    assert [error.code for error in errors] == ["HRS-005", "HRS-007"]
    assert errors[1].notes == ["a waits for c waits for b waits for a"]


@given(st.lists(st.lists(st.integers(0, 6), max_size=3), min_size=1, max_size=7))
def test_007_a_circle_is_found_exactly_where_there_is_one(edges: list[list[int]]) -> None:
    nodes = [root() for _ in edges]
    for node, sources in zip(nodes, edges, strict=True):
        node.waits_for = [nodes[source % len(nodes)] for source in sources]
    open_nodes = list(nodes)
    while ended := [node for node in open_nodes if not any(source in open_nodes for source in node.waits_for)]:
        open_nodes = [node for node in open_nodes if node not in ended]
    try:
        app.workflow("demo", nodes, definition_key="k")
        found = set()
    except HorsiesError as error:
        errors = error.report.errors if isinstance(error, MultipleValidationErrors) else [error]
        found = {str(each.code) for each in errors}
    assert found == ({"HRS-007"} if open_nodes else set()) | ({"HRS-005"} if all(n.waits_for for n in nodes) else set())


@pytest.mark.parametrize("wrap", [lambda m: m, lambda m: [m], lambda m: {"deep": (m,)}])
def test_008_from_node_belongs_to_the_call_of_a_factory(wrap: Any) -> None:
    a = root()
    code, message = only(a, TaskNode(total, kwargs={"left": wrap(from_node(a))}, waits_for=[a]))
    assert code == "HRS-008"
    assert "from_node()" in message


def test_019_an_argument_must_have_a_parameter_and_a_near_miss_is_told() -> None:
    (error,) = refusal(TaskNode(price, kwargs={"sku": "a", "skuu": "b"}))
    assert (error.code, error.help_text) == ("HRS-019", "did you mean 'sku'?")
    a = root()
    assert only(a, TaskNode(price, kwargs={"sku": "a"}, waits_for=[a], args_from={"other": a}))[0] == "HRS-019"


def test_019_names_of_ours_cannot_be_given_even_to_a_task_that_takes_anything() -> None:
    free = make_app().task("free", takes_anything)
    app.workflow("demo", [TaskNode(free, kwargs={"whatever": 1})], definition_key="k")
    assert only(TaskNode(free, kwargs={"__horsies_workflow_meta__": 1}))[0] == "HRS-019"


def takes_anything(**rest: int) -> TaskResult[None, TaskError]:
    return TaskResult(ok=None)


def by_position(a: int, /, b: int = 0) -> TaskResult[None, TaskError]:
    return TaskResult(ok=None)


def wants_context(workflow_ctx: WorkflowContext | None) -> TaskResult[None, TaskError]:
    return TaskResult(ok=None)


def test_020_every_parameter_without_a_default_must_be_given() -> None:
    assert only(TaskNode(price)) == ("HRS-020", "node 'demo:0' does not give 'sku' to task 'price'")
    assert only(SubWorkflowNode(Sized))[0] == "HRS-020"


def test_020_a_context_is_given_only_where_nodes_are_named_for_it() -> None:
    task = make_app().task("wants_context", wants_context)
    a = root()
    assert only(a, task.node(waits_for=[a])())[0] == "HRS-020"
    app.workflow("demo", [a, TaskNode(task, waits_for=[a], workflow_ctx_from=[a])], definition_key="k")


@pytest.mark.parametrize("options", [{"join": "any"}, {"join": "quorum", "min_success": 1}])
def test_020_a_result_that_may_not_be_there_yet_needs_a_default(options: dict[str, Any]) -> None:
    a, b = root(), root()
    code, message = only(a, b, total.node(waits_for=[a, b], **options)(left=from_node(a)))
    assert code == "HRS-020"
    assert "can run before <TaskNode 'demo:0'> has ended" in message
    app.workflow("demo", [a, b, report.node(waits_for=[a, b], **options)()], definition_key="k")


def test_020_a_quorum_of_all_has_all_results() -> None:
    a, b = root(), root()
    node = total.node(join="quorum", min_success=2)(left=from_node(a), right=from_node(b))
    assert app.workflow("demo", [a, b, node], definition_key="k").tasks[2].min_success == 2


def test_024_a_result_goes_to_a_parameter_that_takes_a_result() -> None:
    a = root()
    code, message = only(a, TaskNode(price, waits_for=[a], args_from={"sku": a}))
    assert code == "HRS-024"
    assert "which takes str" in message


def test_024_the_types_of_both_must_agree() -> None:
    listing = skus.node()()
    code, message = only(listing, total.node()(left=from_node(listing)))  # type: ignore[arg-type]
    assert code == "HRS-024"
    assert "whose value is list[str]" in message
    assert "takes a result of int" in message
    sized = SubWorkflowNode(Sized, kwargs={"count": 1}, waits_for=[listing], args_from={"before": listing})
    assert only(listing, sized)[0] == "HRS-024"


def test_024_a_sub_workflow_gives_what_its_definition_promises() -> None:
    order = SubWorkflowNode(Order)
    assert only(order, TaskNode(total, waits_for=[order], args_from={"left": order}))[0] == "HRS-024"
    sized = SubWorkflowNode(Sized, kwargs={"count": 1})
    app.workflow("demo", [sized, TaskNode(total, waits_for=[sized], args_from={"left": sized})], definition_key="k")


@pytest.mark.parametrize("value", [{1, 2}, b"x", object(), float("nan"), {"deep": [object()]}])
def test_031_arguments_must_be_storable(value: Any) -> None:
    code, message = only(TaskNode(pack, kwargs={"item": value}))
    assert code == "HRS-031"
    assert "kwargs.item" in message


def test_an_impossible_on_error_is_told() -> None:
    (error,) = refusal(root(), on_error="retry")
    assert "on_error='retry'" in error.message
    assert app.workflow("demo", [root()], "pause", definition_key="k").on_error.value == "pause"  # type: ignore[call-overload]


def after(**options: Any) -> list[Any]:
    """A node, and one that waits for it."""
    first = root()
    return [first, TaskNode(total, waits_for=[first], **{"args_from": {"left": first}, **options})]


def joined(**options: Any) -> list[Any]:
    a, b = root(), root()
    return [a, b, root(waits_for=[a, b], **options)]


def circle_behind_a_first_node() -> list[Any]:
    a, b, c = root(), root(), root()
    b.waits_for, c.waits_for = [a, c], [b]
    return [a, b, c]


WRONG_NODES: list[tuple[str, Callable[[], list[Any]]]] = [
    *(("HRS-003", lambda name=name: [root(node_id=name)]) for name in ("", "x" * 129, "a b", "ä", "a/b", "a\n", 7)),
    ("HRS-006", lambda: [root(waits_for=[price])]),
    ("HRS-006", lambda: [root(), TaskNode(price, kwargs={"sku": "a"}, waits_for=root())]),
    ("HRS-006", lambda: [TaskNode(price, waits_for=None)]),  # type: ignore[arg-type]
    ("HRS-007", circle_behind_a_first_node),
    ("HRS-008", lambda: after(args_from={"left": price})),
    ("HRS-008", lambda: [TaskNode(price, args_from=[])]),  # type: ignore[arg-type]
    ("HRS-009", lambda: [TaskNode(price, workflow_ctx_from="a")]),  # type: ignore[arg-type]
    ("HRS-010", lambda: [a := root(), SubWorkflowNode(Sized, {"count": 1}, waits_for=[a], workflow_ctx_from=[a])]),
    *(
        ("HRS-013", lambda options=options: joined(**options))
        for options in (
            *({"join": "most"}, {"join": "all", "min_success": 1}, {"join": "any", "min_success": 1}),
            *({"join": "quorum", **number} for number in ({}, *({"min_success": n} for n in (0, 3, True, 1.0)))),
        )
    ),
    ("HRS-016", lambda: [SubWorkflowNode(price)]),  # type: ignore[arg-type]
    ("HRS-019", lambda: after(kwargs={"workflow_ctx": None})),
    ("HRS-019", lambda: after(kwargs={"workflow_meta": None})),
    ("HRS-019", lambda: [TaskNode(price, kwargs=["a"])]),  # type: ignore[arg-type]
    ("HRS-021", lambda: after(kwargs={"left": None})),
    ("HRS-022", lambda: [a := root(), SubWorkflowNode(Order, waits_for=[a], args_from={"count": a})]),
    ("HRS-026", lambda: [TaskNode(make_app().task("by_position", by_position))]),
    ("HRS-102", lambda: [root(priority=0)]),
    ("HRS-102", lambda: [root(priority=101)]),
    ("HRS-102", lambda: [root(priority="high")]),
    ("HRS-102", lambda: [root(good_until=datetime(2030, 1, 1))]),  # noqa: DTZ001 - that it is naive is the point
    ("HRS-300", lambda: [TaskNode(takes_anything)]),  # type: ignore[arg-type]
    ("HRS-008", lambda: [MapNode(price, "abc")]),
    ("HRS-008", lambda: [MapNode(price, 5)]),  # type: ignore[arg-type]
    ("HRS-008", lambda: [MapNode(price, ["a"] * 3, max_items=2)]),
    ("HRS-008", lambda: [MapNode(price, ["a"], max_items=0)]),
    ("HRS-008", lambda: [MapNode(price, ["a"], max_items=True)]),
    ("HRS-019", lambda: [MapNode(price, ["a"], kwargs={"size": 1})]),
    ("HRS-021", lambda: [MapNode(price, ["a"], kwargs={"sku": "b"})]),
    ("HRS-031", lambda: [MapNode(price, [object()])]),
]


@pytest.mark.parametrize(("code", "nodes"), WRONG_NODES)
def test_a_wrong_node_has_its_code(code: str, nodes: Callable[[], list[Any]]) -> None:
    assert only(*nodes())[0] == code


@pytest.mark.parametrize(
    ("code", "option", "values"),
    [
        ("HRS-001", "name", ["", "  ", "x" * 256, None, 5, "a\nb"]),
        ("HRS-011", "output", [root(), "nobody", NodeKey("nobody")]),
        ("HRS-016", "definition_key", [None, "", "  ", "x" * 256, 3]),
        (
            "HRS-012",
            "success_policy",
            [
                *("demo:0", SuccessPolicy([]), SuccessPolicy([SuccessCase([])])),
                SuccessPolicy([SuccessCase(["nobody"])]),
                SuccessPolicy([SuccessCase(["demo:0"])], optional=[root()]),
            ],
        ),
    ],
)
def test_a_wrong_option_of_a_workflow_has_its_code(code: str, option: str, values: list[Any]) -> None:
    for value in values:
        assert only(root(), **{option: value})[0] == code, value


def test_everything_wrong_is_reported_at_once_each_at_the_line_of_its_node() -> None:
    a = root(node_id="a")
    b = TaskNode(price, kwargs={"nope": object()}, node_id="b", join="most")
    c = total.node(node_id="c", waits_for=[root(node_id="gone")])()  # type: ignore[call-arg]
    errors = refusal(a, b, c, output="nobody", success_policy=SuccessPolicy([]), definition_key=None)
    assert sorted(str(error.code) for error in errors) == [
        *("HRS-006", "HRS-011", "HRS-012", "HRS-013", "HRS-016", "HRS-019"),
        *("HRS-020", "HRS-020", "HRS-031"),
    ]
    sources = {error.location.source.strip()[:1] for error in errors if error.location and "node '" in error.message}
    assert sources == {"b", "c"}


def test_a_map_goes_over_a_list_of_what_its_task_takes() -> None:
    single, listing = root(), skus.node()()
    assert "whose value is int" in only(single, TaskNode.map(price, over=single))[1]
    code, message = only(listing, TaskNode.map(pack, over=listing))
    assert code == "HRS-024"
    assert "items of str, but 'item' of task 'pack' takes Item" in message


def test_an_option_of_a_node_is_no_argument_of_its_map() -> None:
    (error,) = refusal(TaskNode.map(price, over=["a"], node_id="each"))
    assert error.help_text == "an option of the node: MapNode(price, over=..., kwargs={...}, node_id=...)"


def test_a_map_needs_a_task_with_a_parameter_and_all_others_given() -> None:
    assert only(TaskNode.map(skus, over=["a"]))[0] == "HRS-019"
    two = make_app().task("two", takes_two)
    assert only(TaskNode.map(two, over=[1]))[1] == "node 'demo:0' does not give 'b' to task 'two'"
    app.workflow("demo", [TaskNode.map(two, over=[1], b=2)], definition_key="k")


def takes_two(a: int, b: int) -> TaskResult[int, TaskError]:
    return TaskResult(ok=a + b)
