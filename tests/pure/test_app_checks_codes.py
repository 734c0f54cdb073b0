"""`app.check()`: phase after phase; for each code an application that is wrong in this one way."""

from __future__ import annotations

from pathlib import Path

import pytest
from task_apps import make_app

from horsies import ErrorCode, TaskError, TaskResult
from horsies.domain.errors import HorsiesError, MultipleValidationErrors
from horsies.locate import checked_app

HEAD = """
from horsies import *
from horsies.workflow.nodes import NodeKey
app = Horsies(AppConfig(broker=PostgresConfig(database_url="postgresql://me:secret@localhost:1/none")))
@app.task("one")
def one(a: int = 1) -> TaskResult[int, TaskError]: ...
@app.task("needs")
def needs(
    a: int,
    other: TaskResult[str, TaskError] | None = None,
    right: TaskResult[int, TaskError] | None = None,
    workflow_ctx: WorkflowContext | None = None,
) -> TaskResult[int, TaskError]: ...
@app.task("by_position")
def by_position(a: int, /) -> TaskResult[int, TaskError]: ...
class Inner(WorkflowDefinition[int]):
    name = "inner"
    definition_key = "codes.inner"
    step = one.node()()
"""

WORKFLOWS = {
    # what the builder makes, and the text at which the error points
    "001": ('app.workflow("", [TaskNode(one)], definition_key="k")',) * 2,
    "002": ('app.workflow("w", [], definition_key="k")',) * 2,
    "003": ('make(TaskNode(one, node_id="a b"))', 'TaskNode(one, node_id="a b")'),
    "004": (
        'make(TaskNode(one, node_id="a"), TaskNode(one, kwargs={"a": 2}, node_id="a"))',
        'TaskNode(one, kwargs={"a',
    ),
    "006": ("make(TaskNode(one, waits_for=[first]))", "TaskNode(one, waits_for=[first])"),
    "007": (
        "x = TaskNode(one, waits_for=[first])\n    x.waits_for.append(x)\n    return make(first, x)",
        "TaskNode(one, w",
    ),
    "008": ('make(first, TaskNode(needs, {"a": 1}, args_from={"right": first}))', "TaskNode(needs"),
    "009": ('make(first, TaskNode(needs, {"a": 1}, workflow_ctx_from=[first]))', "TaskNode(needs"),
    "010": ("make(first, TaskNode(one, waits_for=[first], workflow_ctx_from=[first]))", "TaskNode(one, waits_for"),
    "011": ("make(first, output=TaskNode(one))", 'app.workflow("w", list(nodes), definition_key="k", **options)'),
    "012": ("make(first, success_policy=SuccessPolicy(cases=[]))", 'app.workflow("w", list(nodes)'),
    "013": ('make(first, TaskNode(one, waits_for=[first], join="quorum"))', "TaskNode(one, waits_for=[first], join"),
    "014": ('WorkflowSpec("w", [TaskNode(one, priority=1)])', "TaskNode(one, priority=1)"),
    "015": ('WorkflowSpec("w", [TaskNode(one, queue="default")])', 'TaskNode(one, queue="default")'),
    "016": ('app.workflow("w", [TaskNode(one)])', 'app.workflow("w", [TaskNode(one)])'),
    "019": ('make(TaskNode(one, {"b": 1}))', 'TaskNode(one, {"b": 1})'),
    "020": ("make(TaskNode(needs))", "TaskNode(needs)"),
    "021": (
        'make(first, TaskNode(needs, {"a": 1, "right": None}, waits_for=[first], args_from={"right": first}))',
        "TaskNode(needs",
    ),
    "022": ('make(SubWorkflowNode(Inner, kwargs={"a": 1}))', 'SubWorkflowNode(Inner, kwargs={"a": 1})'),
    "024": ('make(first, TaskNode(needs, {"a": 1}, waits_for=[first], args_from={"other": first}))', "TaskNode(needs"),
    "026": ('make(TaskNode(by_position, {"a": 1}))', 'TaskNode(by_position, {"a": 1})'),
    "029": ("[][0]", "[][0]"),
    "031": ('make(TaskNode(one, {"a": object()}))', 'TaskNode(one, {"a": object()})'),
    "103": ('make(TaskNode(one, queue="mail"))', 'TaskNode(one, queue="mail")'),
}
BUILDER = """
def make(*nodes, **options):
    return app.workflow("w", list(nodes), definition_key="k", **options)
@app.workflow_builder()
def build() -> WorkflowSpec[int]:
    first = TaskNode(one)
    return {}
"""

APPLICATIONS = {
    "017": ("class Other(Inner):\n    definition_key = 'codes.inner'", "class Other(Inner):"),
    "025": (
        "class Wrong(WorkflowDefinition[str]):\n    name = 'x'\n    definition_key = 'codes.x'\n    s = one.node()()\n"
        "    class Meta:\n        output = 's'",
        "class Wrong(WorkflowDefinition[str]):",
    ),
    "027": ("@app.workflow_builder()\ndef build(a: int): ...", "def build(a: int): ..."),
    "028": ("@app.workflow_builder(cases=[{'b': 1}])\ndef build(a: int): ...", "def build(a: int): ..."),
    "030": ("def build() -> WorkflowSpec[int]: ...", "def build() -> WorkflowSpec[int]: ..."),
    "100": ("@app.task('x')\ndef x(): ...", "def x(): ..."),
    "101": ("@app.task('x')\nasync def x() -> int: ...", "async def x() -> int: ..."),
    "102": ("@app.task('x', retries=3)\ndef x() -> TaskResult[int, TaskError]: ...", "@app.task('x', retries=3)"),
    "104": (
        "import functools\ndef twice(fn):\n    @functools.wraps(fn)\n    def inner(): ...\n    return inner\n"
        "@app.task('x')\n@twice\ndef x() -> TaskResult[int, TaskError]: ...",
        "@functools.wraps(fn)",
    ),
    "200": ("AppConfig(broker=app.config.broker, custom_queues=[])",) * 2,
    "201": ("AppConfig(broker=app.config.broker, cluster_wide_cap=0)",) * 2,
    "202": ("AppConfig(broker=app.config.broker, prefetch_buffer=-1)",) * 2,
    "203": ("PostgresConfig(database_url='mysql://me@db/app')",) * 2,
    "204": ("RecoveryConfig(running_stale_threshold_ms=1_000, finalizing_stale_threshold_ms=60_000)",) * 2,
    "205": ("x = 1; IntervalSchedule()", "IntervalSchedule()"),
    "208": ("WorkerResilienceConfig(db_retry_max_ms=500, db_retry_initial_ms=501)",) * 2,
    "209": ("AppConfig(broker=app.config.broker, exception_mapper={OSError: 'not upper'})",) * 2,
    "210": ("def pick(ä):\n    return [][ä]\npick(0)", "[][ä]"),
    "212": (
        "app = Horsies(AppConfig(broker=app.config.broker, default_unhandled_error_code='TASK_EXPIRED'))",
        "AppConfig(",
    ),
    "300": (
        "app = Horsies(AppConfig(broker=app.config.broker, schedule=ScheduleConfig(schedules=[\n"
        "    TaskSchedule(name='n', task_name='two', pattern='0 1 * * *')])))",
        "TaskSchedule(name='n', task_name='two', pattern='0 1 * * *')",
    ),
    "301": ("@app.task('one')\ndef x() -> TaskResult[int, TaskError]: ...", "@app.task('one')"),
}

ELSEWHERE = {
    "005": "below: where every node waits, some wait in a circle",
    "018": "tests/sql/test_workflow_start.py: a broker without an application is found when a workflow starts",
    "023": "tests/pure/test_workflow_definitions.py: what build_with returns is found when a worker calls it",
    "206": "below: a locator leads to no application",
    "207": "below: a locator that is malformed",
    "211": "tests/process/test_check_command.py: --live finds tables that a worker could not use",
}


def only_error(locator: str) -> HorsiesError:
    with pytest.raises(MultipleValidationErrors) as caught:
        checked_app(locator)
    assert str(caught.value).endswith("error: aborting due to 1 previous error")
    assert "secret" not in str(caught.value)
    (error,) = caught.value.report.errors
    assert error.help_text
    return error


def pointed_at(error: HorsiesError) -> str:
    """The underlined text."""
    assert error.location is not None
    start, end = error.location.columns
    assert start is not None
    assert end is not None
    assert f"--> {error.location.file}:{error.location.line}:{start}\n" in str(error)
    return error.location.source[start - 1 : end - 1]


def test_each_code_is_tried() -> None:
    tried = {*WORKFLOWS, *APPLICATIONS, *ELSEWHERE}
    assert {f"HRS-{number}" for number in tried} == {code.value for code in ErrorCode}


@pytest.mark.parametrize("number", [*WORKFLOWS, *APPLICATIONS])
def test_one_mistake_is_one_error_at_its_place(project: Path, number: str) -> None:
    text, place = WORKFLOWS.get(number) or APPLICATIONS[number]
    body = BUILDER.replace("return {}", text if "return" in text else f"return {text}") if number in WORKFLOWS else text
    (project / "wrong_app.py").write_text(HEAD + body)
    error = only_error("wrong_app:app")
    assert error.code is not None
    assert error.code.value == f"HRS-{number}"
    assert error.location is not None
    assert error.location.file == str(project / "wrong_app.py")
    assert pointed_at(error).startswith(place or 'app.workflow("w", list(nodes), definition_key="k"')


def test_206_and_207_name_what_was_looked_for(project: Path) -> None:
    (project / "wrong_app.py").write_text("x = 1")
    assert str(only_error("wrong_app").code) == "HRS-206"
    assert str(only_error("wrong_app:app").code) == "HRS-207"


def test_a_password_beside_the_mistake_is_masked(project: Path) -> None:
    (project / "wrong_app.py").write_text(HEAD.replace('none")', 'none"), cluster_wide_cap=0'))
    text = str(only_error("wrong_app:app"))
    assert 'database_url="postgresql://me:***@localhost:1/none"), cluster_wide_cap=0' in text


def test_an_error_that_a_library_raises_is_shown_where_the_module_calls_it(project: Path) -> None:
    (project / "wrong_app.py").write_text("import json\nfound = json.loads('{')\n")
    error = only_error("wrong_app:app")
    assert error.code is ErrorCode.MODULE_EXEC_ERROR
    assert pointed_at(error) == "json.loads('{')"


def test_workflows_beside_the_application_are_checked_without_being_discovered(project: Path) -> None:
    (project / "wrong_app.py").write_text(HEAD)
    (project / "flows.py").write_text(
        "from wrong_app import *\nclass Loose(WorkflowDefinition[int]):\n    name = 'loose'\n    step = one.node()()\n"
    )
    error = only_error("flows:app")
    assert error.code is ErrorCode.WORKFLOW_NO_DEFINITION_KEY
    assert pointed_at(error) == "class Loose(WorkflowDefinition[int]):"


def good() -> TaskResult[int, TaskError]:
    return TaskResult(ok=1)


def no_type() -> TaskResult[5, TaskError]:  # type: ignore[valid-type]
    raise NotImplementedError


def test_a_sound_application_has_no_errors() -> None:
    app = make_app()
    app.task("good", good, exception_mapper={OSError: "DISK"}, default_unhandled_error_code="UNHANDLED_EXCEPTION")
    assert app.check() == []


def test_codes_that_are_ours_already_are_refused_wherever_they_stand() -> None:
    app = make_app(exception_mapper={OSError: "BROKER_ERROR"}, default_unhandled_error_code="TASK_EXPIRED")
    app.task("good", good, exception_mapper={OSError: "WORKER_CRASHED"}, default_unhandled_error_code="TASK_EXCEPTION")
    errors = app.check()
    assert {error.code for error in errors} == {ErrorCode.CHECK_RESERVED_CODE_COLLISION}
    assert [error.message for error in errors] == [
        "exception_mapper of AppConfig turns OSError into the built-in code BROKER_ERROR",
        "default_unhandled_error_code of AppConfig is the built-in code TASK_EXPIRED",
        "exception_mapper of task 'good' turns OSError into the built-in code WORKER_CRASHED",
        "default_unhandled_error_code of task 'good' is the built-in code TASK_EXCEPTION",
    ]
    assert errors[-1].location is not None
    assert errors[-1].location.line == good.__code__.co_firstlineno


def test_a_return_type_that_is_no_type_is_found() -> None:
    app = make_app()
    app.task("odd", no_type)
    (error,) = app.check()
    assert error.code is ErrorCode.TASK_INVALID_RETURN_TYPE
    assert "5 is not a Python type" in error.message


async def test_a_worker_inside_another_program_begins_with_the_check_too() -> None:
    """It raises before it connects: nothing answers there, and it would wait for the database."""
    app = make_app(default_unhandled_error_code="TASK_EXPIRED")
    with pytest.raises(MultipleValidationErrors) as caught:
        async with app.run_worker(locator="nowhere:app"):
            raise NotImplementedError
    assert [error.code for error in caught.value.report.errors] == [ErrorCode.CHECK_RESERVED_CODE_COLLISION]
