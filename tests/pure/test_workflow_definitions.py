"""Workflows as classes: what a class needs, how its key is looked up, and how children are built from it."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest
from workflow_shop import Order, app, price

from horsies import ErrorCode, OnError, TaskResult
from horsies.domain.codec import dump_task_result
from horsies.domain.errors import HorsiesError, WorkflowValidationError
from horsies.domain.plan import Meta, NodeRef, SourceResult, node_kwargs
from horsies.workflow.context import WorkflowContext, WorkflowMeta
from horsies.workflow.definition import WorkflowDefinition, find_definition
from horsies.workflow.nodes import SubWorkflowNode
from horsies.workflow.spec import WorkflowApp, WorkflowSpec
from horsies.workflow.subworkflow_plan import BuildFailed, UnknownDefinition, UnreadableKwargs, child_plan

PARENT = Meta("parent", 3, "child")


def refusal(build: Any, *arguments: Any) -> HorsiesError:
    with pytest.raises(HorsiesError) as caught:
        build(*arguments)
    assert caught.value.location is not None
    assert caught.value.location.file == __file__
    return caught.value


def test_a_definition_builds_a_workflow_as_its_meta_says() -> None:
    spec = Order.build(app)
    assert (spec.name, spec.definition_key, spec.workflow_def_cls, spec.on_error) == (
        "order",
        "shop.order",
        Order,
        OnError.PAUSE,
    )
    assert [node.node_id for node in spec.tasks] == ["one", "two", "sum"]
    assert spec.output is spec.tasks[2]
    plan = spec.to_plan()
    assert plan.success_policy == '{"cases":[{"required_indices":[2]}],"optional_indices":[1]}'
    assert (plan.nodes[2].args_from, plan.nodes[2].ctx_from) == ({"left": 0, "right": 1}, ("one",))


def test_each_build_has_nodes_of_its_own() -> None:
    first, second = Order.build(app), Order.build(app)
    assert not set(map(id, first.tasks)) & set(map(id, [*second.tasks, Order.one, Order.two, Order.sum]))
    assert (Order.one.node_id, Order.sum.waits_for) == ("one", [Order.one, Order.two])


def test_a_node_of_the_module_can_be_the_output_in_the_class() -> None:
    class Outside(WorkflowDefinition[int]):
        name = "outside"
        definition_key = "tests.definitions.outside"
        step = MODULE_NODE

        class Meta:
            output = MODULE_NODE

    assert Outside.build(app).to_plan().output_index == 0


MODULE_NODE = price.node()(sku="a")


def test_nodes_of_base_classes_come_first_and_can_be_replaced() -> None:
    class Base(WorkflowDefinition[Any]):
        name = "base"
        definition_key = "tests.definitions.base"
        first = price.node()(sku="a")
        second = price.node(node_id="named")(sku="b")

    class Derived(Base):
        definition_key = "tests.definitions.derived"
        third = price.node()(sku="c")
        first = price.node()(sku="new")

    nodes = Derived.build(app).tasks
    assert [(node.node_id, node.kwargs["sku"]) for node in nodes] == [("first", "new"), ("named", "b"), ("third", "c")]


def test_a_class_that_others_derive_from_needs_nothing() -> None:
    class Shared(WorkflowDefinition[Any]):
        owner: ClassVar[str] = "shop"

    assert Shared.is_base()


def test_001_a_definition_needs_a_name() -> None:
    def define() -> None:
        class Nameless(WorkflowDefinition[Any]):
            definition_key = "tests.definitions.nameless"
            one = price.node()(sku="a")

    assert refusal(define).code is ErrorCode.WORKFLOW_NO_NAME
    assert find_definition("tests.definitions.nameless") is None


def test_002_a_definition_needs_nodes_to_be_built() -> None:
    class Empty(WorkflowDefinition[Any]):
        name = "empty"
        definition_key = "tests.definitions.empty"

    assert refusal(Empty.build, app).code is ErrorCode.WORKFLOW_NO_NODES


@pytest.mark.parametrize("key", [None, "", "  ", 5, "x" * 256])
def test_016_a_definition_needs_a_key_to_be_built(key: Any) -> None:
    class Keyless(WorkflowDefinition[Any]):
        name = "keyless"
        definition_key = key
        one = price.node()(sku="a")

    assert refusal(Keyless.build, app).code is ErrorCode.WORKFLOW_NO_DEFINITION_KEY


def test_016_a_key_is_not_inherited_because_stored_workflows_could_not_tell_the_two() -> None:
    class Child(Order):
        name = "child"

    assert refusal(Child.build, app).code is ErrorCode.WORKFLOW_NO_DEFINITION_KEY
    nodes = [SubWorkflowNode(Child)]
    assert refusal(lambda: app.workflow("w", nodes, definition_key="k")).code is ErrorCode.WORKFLOW_NO_DEFINITION_KEY
    assert find_definition("shop.order") is Order


@pytest.mark.parametrize("key", ["shop.order", "__horsies_map__"])
def test_017_a_key_belongs_to_one_definition(key: str) -> None:
    def define() -> None:
        class Thief(WorkflowDefinition[Any]):
            name = "thief"
            definition_key = key
            one = price.node()(sku="a")

    error = refusal(define)
    assert error.code is ErrorCode.WORKFLOW_DUPLICATE_DEFINITION_KEY
    assert error.notes[0].startswith("it belongs to")
    assert find_definition("shop.order") is Order


def test_a_module_that_is_imported_again_replaces_its_definitions() -> None:
    def define() -> type[WorkflowDefinition[Any]]:
        class Again(WorkflowDefinition[Any]):
            name = "again"
            definition_key = "tests.definitions.again"
            one = price.node()(sku="a")

        return Again

    first, second = define(), define()
    assert first is not second
    assert find_definition("tests.definitions.again") is second


def test_007_definitions_that_contain_each_other_would_never_end() -> None:
    class Inner(WorkflowDefinition[Any]):
        name = "inner"
        definition_key = "tests.definitions.inner"
        one = price.node()(sku="a")

    class Outer(WorkflowDefinition[Any]):
        name = "outer"
        definition_key = "tests.definitions.outer"
        child = SubWorkflowNode(Inner)

    assert Outer.build(app).to_plan().nodes[0].sub_definition_key == "tests.definitions.inner"
    Inner.back = SubWorkflowNode(Outer)  # type: ignore[attr-defined]
    with pytest.raises(WorkflowValidationError) as caught:
        Outer.build(app)
    assert caught.value.code is ErrorCode.WORKFLOW_CYCLE_DETECTED
    assert [name.rpartition(".")[2] for name in caught.value.notes[0].split(" → ")] == ["Outer", "Inner", "Outer"]
    with pytest.raises(WorkflowValidationError):
        app.workflow("user", [SubWorkflowNode(Outer)], definition_key="k")


def test_a_slip_of_the_pen_in_meta_is_told() -> None:
    class Slip(WorkflowDefinition[Any]):
        name = "slip"
        definition_key = "tests.definitions.slip"
        one = price.node()(sku="a")

        class Meta:
            ouput = "one"

    error = refusal(Slip.build, app)
    assert "ouput" in error.message
    assert error.help_text == "it may hold output, on_error, success_policy"


def test_022_parameters_are_for_definitions_with_a_build_with_of_their_own() -> None:
    with pytest.raises(WorkflowValidationError, match="to take count") as caught:
        Order.build_with(app, count=1)
    assert caught.value.code is ErrorCode.WORKFLOW_SUBWORKFLOW_PARAMS_REQUIRE_BUILD_WITH
    assert Order.build_with(app).to_plan() == Order.build(app).to_plan()


def test_a_child_is_planned_from_the_stored_arguments_of_its_node() -> None:
    plan = child_plan(app, "shop.sized", '{"count":2,"__horsies_workflow_meta__":{"workflow_id":"w","task_index":0}}')
    assert (plan.name, plan.definition_key, plan.output_index) == ("sized", "shop.sized", 1)
    assert [node.kwargs_json for node in plan.nodes] == ['{"sku":"a"}', '{"sku":"aa"}']


SEEN: list[Any] = []


class Curious(WorkflowDefinition[Any]):
    """Takes every kind of argument that a child can get."""

    name = "curious"
    definition_key = "tests.definitions.curious"

    @classmethod
    def build_with(
        cls,
        app: WorkflowApp,
        *,
        before: TaskResult[int, Any],
        workflow_ctx: WorkflowContext | None = None,
        workflow_meta: WorkflowMeta | None = None,
    ) -> WorkflowSpec[Any]:
        SEEN[:] = [before, workflow_ctx, workflow_meta]
        return app.workflow("another name", [price.node()(sku="a")], definition_key="another.key")


def test_a_child_is_given_results_context_and_place_of_its_node() -> None:
    first = price.node()(sku="a")
    child = SubWorkflowNode(
        Curious, waits_for=[first], args_from={"before": first}, workflow_ctx_from=[first], node_id="child"
    )
    node = app.workflow("parent", [first, child], definition_key="k").to_plan().nodes[1]
    text = dump_task_result(TaskResult(ok=7))
    source = SourceResult(NodeRef("parent", 0), "COMPLETED", text, len(text))
    stored = node_kwargs(node.kwargs_json, results={"before": source}, ctx={"parent:0": source}, meta=PARENT)
    plan = child_plan(app, node.sub_definition_key or "", stored)
    before, context, meta = SEEN
    assert before == TaskResult(ok=7)
    assert context.result_for(first) == TaskResult(ok=7)
    assert (meta.workflow_id, meta.task_index) == ("parent", 3)
    assert (plan.name, plan.definition_key) == ("another name", "tests.definitions.curious")


def test_a_definition_that_is_not_here_is_told_by_its_key() -> None:
    with pytest.raises(UnknownDefinition, match=r"'shop\.gone'.*discover_tasks"):
        child_plan(app, "shop.gone", "{}")


@pytest.mark.parametrize(
    "stored", ["", "[]", "{", '{"count":{"__dataclass__":true,"module":"no.where","qualname":"X","data":{}}}']
)
def test_arguments_that_cannot_be_read_are_told_apart_from_a_build_that_fails(stored: str) -> None:
    with pytest.raises(UnreadableKwargs):
        child_plan(app, "shop.sized", stored)


@pytest.mark.parametrize("stored", ["{}", '{"count":"x"}', '{"count":1,"other":1}', '{"count":0}'])
def test_a_build_that_raises_is_told_with_its_reason(stored: str) -> None:
    with pytest.raises(BuildFailed, match=r"Sized cannot be built: (TypeError|IndexError)"):
        child_plan(app, "shop.sized", stored)


class Stubborn(WorkflowDefinition[Any]):
    name = "stubborn"
    definition_key = "tests.definitions.stubborn"

    @classmethod
    def build_with(cls, app: WorkflowApp, *, what: str) -> WorkflowSpec[Any]:
        if what in {"exit", "stop"}:
            raise SystemExit(3) if what == "exit" else KeyboardInterrupt
        return {"none": None, "old": OLD, "node": price}[what]  # type: ignore[return-value]


OLD = app.workflow("old", [price.node()(sku="a")], definition_key="k")


@pytest.mark.parametrize(
    ("what", "reason"),
    [
        ("exit", "SystemExit: 3"),
        ("stop", "KeyboardInterrupt"),
        ("none", "returned NoneType, not a new WorkflowSpec"),
        ("node", "returned TaskFunction, not a new WorkflowSpec"),
        ("old", "returned an old spec, not a new WorkflowSpec"),
    ],
)
def test_a_build_must_give_a_workflow_of_that_call(what: str, reason: str) -> None:
    with pytest.raises(BuildFailed, match=reason):
        child_plan(app, "tests.definitions.stubborn", f'{{"what":"{what}"}}')
