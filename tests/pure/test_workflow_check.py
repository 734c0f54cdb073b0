"""`app.check()` of workflows, and whether the value of one node may be passed to another by their annotations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NewType, Optional, Protocol, TypedDict, TypeVar, Union

import pytest
from hypothesis import given, strategies as st
from pydantic import BaseModel
from task_apps import make_app
from typing_extensions import TypeAliasType

from horsies import ErrorCode, Horsies, TaskError, TaskResult
from horsies.app_checks import checked
from horsies.domain.errors import HorsiesError
from horsies.workflow.signatures import NodeFunction, fits, item_type, result_types
from horsies.workflow.spec import WorkflowSpec

APPS: list[Horsies] = []

HEAD = """
from horsies import TaskError, TaskResult
from horsies.workflow.definition import WorkflowDefinition
from horsies.workflow.nodes import SubWorkflowNode, TaskNode
from horsies.workflow.spec import WorkflowSpec
from test_workflow_check import APPS
app = APPS[-1]
@app.task("one")
def one(a: int = 1) -> TaskResult[int, TaskError]:
    return TaskResult(ok=a)
def make(*nodes):
    return app.workflow("w", list(nodes) or [one.node()()], definition_key="k")
"""


def check(project: Path, body: str, **config: Any) -> list[HorsiesError]:
    """The errors of an application with this module."""
    app = make_app(**config)
    APPS.append(app)
    path = project / "checked_workflows.py"
    path.write_text(HEAD + body)
    app.discover_tasks([str(path)])
    errors = app.check()
    assert all(error.help_text and error.location and error.location.file == str(path) for error in errors)
    assert not app.are_sends_suppressed()
    return errors


def codes(errors: list[HorsiesError]) -> list[str]:
    return [str(error.code) for error in errors]


def line_of(error: HorsiesError) -> str:
    assert error.location is not None
    return error.location.source.strip()


def test_sound_workflows_have_no_errors(project: Path) -> None:
    body = """
class Sound(WorkflowDefinition[int]):
    name = "sound"
    definition_key = "check.sound"
    step = one.node()()
    class Meta:
        output = "step"
@app.workflow_builder()
def plain() -> WorkflowSpec[int]:
    return make(SubWorkflowNode(Sound))
@app.workflow_builder(cases=[{"a": 1}, {"a": 2, "b": 3}])
def with_cases(a: int, b: int = 0) -> WorkflowSpec[int]:
    return make(one.node()(a=a + b))
def no_builder() -> int: ...
"""
    assert check(project, body) == []


@pytest.mark.parametrize("cases", ['["a"]', '[{"b": 1}]', '[{"a": 1, "x": 2}]', "[{}]", "[{1: 1}]", '{"a": 1}', "[]"])
def test_028_a_case_holds_the_arguments_of_one_call(project: Path, cases: str) -> None:
    body = f"""
@app.workflow_builder(cases={cases})
def needs(a: int) -> WorkflowSpec[int]:
    return make()
"""
    (error,) = check(project, body)
    assert error.code is ErrorCode.WORKFLOW_CHECK_CASE_INVALID


@pytest.mark.parametrize(
    ("what", "told"),
    [
        ("raise ValueError('no luck')", "raised ValueError: no luck"),
        ("raise SystemExit(2)", "raised SystemExit: 2"),
        ("return None", "returned NoneType, not a WorkflowSpec"),
        ("return make", "returned function, not a WorkflowSpec"),
    ],
)
def test_029_a_builder_that_raises_or_returns_something_else_is_told(project: Path, what: str, told: str) -> None:
    body = f"""
@app.workflow_builder(cases=[dict(a=1), dict(a=2)])
def odd(a: int) -> WorkflowSpec[int]:
    {what}
"""
    errors = check(project, body)
    assert codes(errors) == ["HRS-029", "HRS-029"]
    assert [error.message for error in errors] == [f"cases[{n}] of checked_workflows.odd() {told}" for n in (0, 1)]


def test_029_a_builder_cannot_be_async(project: Path) -> None:
    (error,) = check(project, "@app.workflow_builder()\nasync def odd() -> WorkflowSpec[int]:\n    return make()\n")
    assert error.code is ErrorCode.WORKFLOW_CHECK_BUILDER_EXCEPTION
    assert "returned coroutine" in error.message


def test_errors_within_workflows_are_reported_as_themselves_for_each_builder_and_definition(project: Path) -> None:
    body = """
class Wrong(WorkflowDefinition[str]):
    name = "wrong"
    definition_key = "check.wrong"
    step = one.node()()
    class Meta:
        output = "step"
@app.workflow_builder()
def bad() -> WorkflowSpec[int]:
    return make(TaskNode(one, kwargs={"x": 1}, join="most"))
@app.workflow_builder()
def loose() -> WorkflowSpec[int]:
    return WorkflowSpec("loose", [one.node()()])
"""
    errors = check(project, body)
    assert sorted(codes(errors)) == ["HRS-013", "HRS-014", "HRS-015", "HRS-019", "HRS-025"]
    assert {note for error in errors for note in error.notes if note.startswith("found by")} == {
        "found by building Wrong",
        "found by building checked_workflows.bad",
        "found by building checked_workflows.loose",
    }


def test_030_a_function_that_makes_a_workflow_must_be_checked_or_opt_out(project: Path) -> None:
    body = """
import horsies.workflow.spec
def forgotten() -> WorkflowSpec[int]:
    return make()
def quoted() -> "horsies.workflow.spec.WorkflowSpec": ...
def left_out() -> WorkflowSpec: ...
left_out.__horsies_no_check__ = True
def other(a: WorkflowSpec) -> list[WorkflowSpec]: ...
@app.workflow_builder()
def known() -> WorkflowSpec: return make()
"""
    errors = check(project, body)
    assert codes(errors) == ["HRS-030", "HRS-030"]
    assert [line_of(error) for error in errors] == [
        "def forgotten() -> WorkflowSpec[int]:",
        'def quoted() -> "horsies.workflow.spec.WorkflowSpec": ...',
    ]


def test_030_comes_after_the_builders_and_before_the_tasks(project: Path) -> None:
    forgotten = "\ndef forgotten() -> WorkflowSpec: ...\n"
    broken = "\n@app.workflow_builder()\ndef broken() -> WorkflowSpec:\n    return None\n"
    config = {"default_unhandled_error_code": "TASK_EXPIRED"}
    assert codes(check(project, forgotten + broken, **config)) == ["HRS-029"]


def test_030_comes_before_the_tasks(project: Path) -> None:
    config = {"default_unhandled_error_code": "TASK_EXPIRED"}
    assert codes(check(project, "\ndef forgotten() -> WorkflowSpec: ...\n", **config)) == ["HRS-030"]


def test_nothing_is_started_by_a_builder_that_starts_what_it_makes(project: Path) -> None:
    body = """
STARTED = []
@app.workflow_builder()
def eager() -> WorkflowSpec[int]:
    spec = make()
    STARTED.append(spec.start())
    return spec
APPS[-1].started = STARTED
"""
    assert check(project, body) == []
    (answer,) = APPS[-1].started  # type: ignore[attr-defined]
    assert answer.err_value.code == "VALIDATION_FAILED"


def test_builders_are_listed_once_and_stay_plain_functions() -> None:
    app = make_app()

    def build(n: int = 1) -> WorkflowSpec[Any]:
        raise NotImplementedError(n)

    assert app.get_workflow_builders() == []
    assert app.workflow_builder()(build) is build
    app.workflow_builder(cases=[{"n": 2}])(build)
    (builder,) = app.get_workflow_builders()
    assert (builder.fn, builder.cases) == (build, [{"n": 2}])


CHILDREN = """
class Leaf(WorkflowDefinition[int]):
    name = "leaf"
    definition_key = "check.leaf"
    @classmethod
    def build_with(cls, app, *, n: int):
        assert n < 3, "three is too many"
        return app.workflow(cls.name, [one.node()(a=n)], definition_key=cls.definition_key)
class Branch(WorkflowDefinition[int]):
    name = "branch"
    definition_key = "check.branch"
    @classmethod
    def build_with(cls, app, *, n: int):
        nodes = [SubWorkflowNode(Leaf, kwargs={"n": n + 1})]
        return app.workflow(cls.name, nodes, definition_key=cls.definition_key)
@app.workflow_builder(cases=[{"n": 1}, {"n": 2}])
def parent(n: int) -> WorkflowSpec[int]:
    return make(SubWorkflowNode(Branch, kwargs={"n": n}))
"""


def test_sub_workflows_are_built_with_the_arguments_of_their_parents_cases(project: Path) -> None:
    """However deep; a mistake in build_with was found when a worker came to the node."""
    (error,) = check(project, CHILDREN)
    assert error.code is ErrorCode.WORKFLOW_CHECK_BUILDER_EXCEPTION
    assert error.message == (
        "Leaf, a sub-workflow of Branch, a sub-workflow of cases[1] of checked_workflows.parent() raised"
        " AssertionError: three is too many"
    )
    assert line_of(error).startswith("assert n < 3")


def test_a_sub_workflow_without_end_ends_the_check_all_the_same(project: Path) -> None:
    body = CHILDREN.replace("Leaf, kwargs", "Branch, kwargs").replace('[{"n": 1}, {"n": 2}]', '[{"n": 1}]')
    assert check(project, body) == []
    assert checked(APPS[-1], live=False).unbuilt == [
        "Leaf.build_with(): no case and no schedule gives its n",
        "sub-workflows after the first 1,000",
    ]


T = TypeVar("T")
UserId = NewType("UserId", int)
Numbers = TypeAliasType("Numbers", list[int])


class Animal(BaseModel):
    name: str


class Dog(Animal): ...


class TypedRow(TypedDict):
    a: int


class Barks(Protocol):
    def bark(self) -> None: ...


PLAIN = [int, str, float, bool, None, Animal, Dog, TypedRow, list, dict, UserId, Barks]
GENERIC = st.recursive(
    st.sampled_from(PLAIN),
    lambda inner: st.one_of(
        inner.map(lambda kind: list[kind]),
        inner.map(lambda kind: dict[str, kind]),
        inner.map(lambda kind: Annotated[kind, "note"]),
        st.tuples(inner, inner).map(lambda two: Union[two[0], two[1]]),  # noqa: UP007 - of values, not of names
    ),
    max_leaves=4,
)


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (int, float),
        (bool, int),
        (Dog, Animal),
        (list[Dog], list[Animal]),
        (list[int], Sequence[int]),
        (list[int], list),
        (list, list[int]),
        (list[int], Iterable[int]),
        (tuple[int, ...], list[int]),
        (dict[str, int], Mapping[str, int]),
        (Numbers, list[int]),
        (list[int], Numbers),
        (UserId, int),
        (int, UserId),
        (TypedRow, dict),
        (dict[str, Any], TypedRow),
        (Dog, Barks),
        (Literal["a"], str),
        (Literal["a"], Literal["a", "b"]),
        (str, Literal["a", "b"]),
        (list[T], list[int]),
        ("Forward", int),
        (int, int | None),
        (Optional[int], Union[str, int, None]),  # noqa: UP007, UP045 - the old spelling is another class
        (Annotated[int, "cents"], int),
    ],
)
def test_what_may_be_given(source: Any, target: Any) -> None:
    assert fits(source, target)


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (int, str),
        (float, int),
        (Animal, Dog),
        (list[int], list[str]),
        (list[int], int),
        (int, list[int]),
        (dict[str, int], dict[str, str]),
        (int | None, int),
        (int | str, int),
        (None, int),
        (Literal["a"], int),
        (Literal["c"], Literal["a", "b"]),
        (int, Literal["a"]),
        (UserId, str),
        (Numbers, list[str]),
        (list[dict[str, Dog]], list[dict[str, int]]),
    ],
)
def test_what_is_certainly_wrong(source: Any, target: Any) -> None:
    assert not fits(source, target)


@given(GENERIC, GENERIC)
def test_every_type_fits_itself_anything_and_a_union_with_it(kind: Any, other: Any) -> None:
    assert fits(kind, kind)
    assert fits(kind, Any)
    assert fits(Any, kind)
    assert fits(kind, object)
    assert fits(kind, Union[kind, other])  # noqa: UP007 - of values, not of names
    assert isinstance(fits(kind, other), bool)


@pytest.mark.parametrize(
    ("kind", "item"),
    [
        (list[int], int),
        (list, Any),
        (tuple[str, ...], str),
        (Sequence[Dog], Dog),
        (Numbers, int),
        (list[int] | None, Any),
        (Any, Any),
        (T, Any),
        (int, None),
        (str, None),
        (dict[str, int], None),
        (None, None),
        (int | None, None),
    ],
)
def test_the_items_of_a_list_and_what_is_none(kind: Any, item: Any) -> None:
    assert item_type(kind) == item


@pytest.mark.parametrize(
    ("hint", "kinds"),
    [
        (TaskResult[int, TaskError], [int]),
        (TaskResult, [Any]),
        (TaskResult[int, TaskError] | None, [int]),
        (Union[TaskResult[int, TaskError], TaskResult[str, TaskError]], [int, str]),  # noqa: UP007
        (Annotated[TaskResult[int, TaskError], "note"], [int]),
        (TypeAliasType("Money", TaskResult[int, TaskError]), [int]),
        ("TaskResult[Unknown, TaskError]", [Any]),
        (Any, [Any]),
        (int, None),
        ("int", None),
        (int | None, None),
        (None, None),
    ],
)
def test_which_results_a_parameter_takes(hint: Any, kinds: list[Any] | None) -> None:
    assert result_types(hint) == kinds


def test_a_hint_that_leads_nowhere_stays_a_text() -> None:
    def fn(a: TaskResult[Nowhere, TaskError], b: int, c=1) -> None: ...  # type: ignore[name-defined]  # noqa: F821

    target = NodeFunction(fn, "fn")
    assert target.hint("a") == "TaskResult[Nowhere, TaskError]"
    assert (target.hint("b"), target.hint("c"), target.hint("d")) == (int, None, None)
    assert [target.is_required(name) for name in "abcd"] == [True, True, False, False]
