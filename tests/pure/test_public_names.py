"""The public names and their types, the documented deep import paths, and the cost of importing them."""

from __future__ import annotations

import ast
import inspect
import logging
import subprocess
import sys
from importlib import import_module
from types import ModuleType
from typing import get_type_hints

import pytest
import typed_shop

import horsies
import horsies.views
from horsies import Err, TaskHandle
from horsies.registry import TaskRegistry
from horsies.testing import inline

PUBLIC = """
TASK_TERMINAL_STATES WORKFLOW_TASK_TERMINAL_STATES WORKFLOW_TERMINAL_STATES AppConfig BrokerErrorCode
BrokerOperationError BrokerResult BuiltInTaskCode ContractCode CustomQueueConfig DailySchedule Err ErrorCode
ExceptionMapper Horsies CronSchedule HourlySchedule IntervalSchedule MonthlySchedule
MultipleValidationErrors Ok OnError OperationalErrorCode OutcomeCode PostgresConfig QueueMode RecoveryConfig Result
RetrievalCode RetryPolicy SendFailedError ScheduleConfig SchedulePattern StopCode SubWorkflowError SubWorkflowSummary
TaskAttemptInfo TaskAttemptOutcome TaskError TaskHandle TaskInfo TaskResult TaskSchedule TaskSendError TaskSendErrorCode
TaskSendOptions TaskSendPayload TaskSendResult TaskStatus ValidationReport Weekday WeeklySchedule WorkflowSchedule
WorkerResilienceConfig WorkflowStatus WorkflowTaskStatus WorkflowValidationError __version__ is_err is_ok
AnyNode MapNode ProgressInfo HandleErrorCode HandleOperationError HandleResult NodeKey
SubWorkflowNode SuccessCase SuccessPolicy TaskNode
WorkflowContext WorkflowContextMissingIdError WorkflowDefinition WorkflowHandle WorkflowMeta WorkflowSpec
WorkflowStartError WorkflowStartErrorCode WorkflowStartResult WorkflowTaskInfo from_node pause_workflow
pause_workflow_sync resume_workflow resume_workflow_sync slugify start_workflow start_workflow_async
TaskFailed TaskRetried WorkerStarted WorkerStopped progress track CurrentTask current_task
ChildStarted ChildStopped RunStarted RunFailed RunEnded recover_stuck_workflows
"""


def test_the_public_names_are_exactly_these() -> None:
    assert sorted(horsies.__all__) == sorted(PUBLIC.split())
    assert dir(horsies) == sorted(horsies.__all__)


APPLICATION = """
are_sends_suppressed check config database database_url discover_tasks expand_module_globs get_broker
get_discovered_task_modules get_valid_queue_names get_workflow_builders hooks import_task_modules list_tasks logger on
run_worker send_many send_many_async set_role storable suppress_sends task tasks trace tracing use_database
validate_queue_name workflow workflow_builder
"""


def test_the_public_attributes_of_an_application_are_exactly_these() -> None:
    config = horsies.AppConfig(broker=horsies.PostgresConfig(database_url="postgresql://u@db/app"))
    app = horsies.Horsies(config)
    assert [name for name in dir(app) if not name.startswith("_")] == APPLICATION.split()
    assert app.config is config
    hints = get_type_hints(horsies.Horsies, localns={"AppConfig": horsies.AppConfig})
    assert hints == {"config": horsies.AppConfig, "tasks": TaskRegistry, "logger": logging.Logger}


def _typed_imports(package: ModuleType) -> list[ast.ImportFrom]:
    tree = ast.parse(inspect.getsource(package))
    (block,) = (step for step in tree.body if isinstance(step, ast.If) and ast.unparse(step.test) == "TYPE_CHECKING")
    return [step for step in block.body if isinstance(step, ast.ImportFrom)]


TYPED = {name.name: str(step.module) for step in _typed_imports(horsies) for name in step.names}


@pytest.mark.parametrize("name", sorted(set(PUBLIC.split()) - {"__version__"}))
def test_each_public_name_leads_to_what_type_checkers_see(name: str) -> None:
    """The package names the module of each twice: for type checkers, and for the import at first use."""
    assert getattr(horsies, name) is getattr(import_module(TYPED[name]), name)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Horse'"):
        _ = horsies.Horse  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("module", "name", "home"),
    [
        ("horsies.core.models.recovery", "RecoveryConfig", "horsies.config.recovery"),
        ("horsies.core.models.schedule", "DailySchedule", "horsies.config.schedule"),
        ("horsies.core.models.schedule", "TaskSchedule", "horsies.config.schedule"),
        ("horsies.core.models.queues", "CustomQueueConfig", "horsies.config.app"),
        ("horsies.core.models.tasks", "BUILTIN_CODE_REGISTRY", "horsies.domain.codes"),
        ("horsies.core.models.task_pg", "TaskStatus", "horsies.domain.states"),
        ("horsies.core.models.workflow.context", "SubWorkflowSummary", "horsies.domain.task_result"),
        ("horsies.core.models.workflow.context", "WorkflowContext", "horsies.workflow.context"),
        ("horsies.core.workflows.recovery", "recover_stuck_workflows", "horsies.workflow.handle"),
        ("horsies.core.brokers.postgres", "PostgresBroker", "horsies.broker"),
        ("horsies.core.errors", "HorsiesError", "horsies.domain.errors"),
        ("horsies.core.errors", "ConfigurationError", "horsies.domain.errors"),
        ("horsies.core.errors", "TaskDefinitionError", "horsies.domain.errors"),
        ("horsies.core.errors", "RegistryError", "horsies.domain.errors"),
    ],
)
def test_each_documented_deep_path_leads_to_the_one_class(module: str, name: str, home: str) -> None:
    assert getattr(import_module(module), name) is getattr(import_module(home), name)


def test_each_view_leads_to_what_type_checkers_see() -> None:
    """Type checkers see all names of these modules, in this order."""
    seen = {}
    for module in [str(step.module) for step in _typed_imports(horsies.views)]:
        seen |= {name: value for name, value in vars(import_module(module)).items() if not name.startswith("_")}
    assert {name: getattr(horsies.views, name) for name in horsies.views.__all__}.items() <= seen.items()


def modules_after(code: str) -> set[str]:
    """The modules that a fresh interpreter has loaded after running `code`."""
    script = f"import sys\n{code}\nprint(*sys.modules)"
    return set(
        subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    )


def test_importing_the_package_imports_nothing_heavy() -> None:
    loaded = modules_after("import horsies")
    assert not loaded & {"pydantic", "asyncpg", "typer", "textual", "rich"}


@pytest.mark.parametrize(
    "words", [["--help"], ["db", "--help"], ["--version"], ["db", "init", "--help"], ["check", "--help"]]
)
def test_asking_for_help_imports_no_driver_and_no_screen(words: list[str]) -> None:
    loaded = modules_after(
        f"sys.argv[1:] = {words!r}\nfrom horsies.cli.main import app\n"
        "try:\n    app()\nexcept SystemExit as end:\n    assert end.code == 0"
    )
    assert "horsies.cli.main" in loaded
    assert not loaded & {"asyncpg", "textual", "psutil"}
    if words[0].startswith("-"):  # to read the options of a subcommand, newer typer releases load pydantic themselves
        assert "pydantic" not in loaded


def test_the_help_of_a_group_loads_its_own_verbs_and_no_event_loop() -> None:
    loaded = modules_after(
        "from contextlib import suppress\n"
        "from horsies.cli.main import app\n"
        "with suppress(SystemExit):\n"
        "    app(['tasks', '--help'])\n"
    )
    assert "horsies.operations.verbs.tasks" in loaded
    assert not loaded & {"horsies.operations.verbs.cluster", "asyncio", "ssl", "asyncpg"}


def test_the_console_imports_only_what_its_first_screen_needs() -> None:
    """With pydantic, the other screens and the sheets, its start took 0.2 s longer; they come after the first rows."""
    loaded = modules_after(
        "import horsies_tui.shell.launch, horsies_tui.shell.keymap, horsies_tui.shell.app\n"
        "from horsies_tui.shell.views import VIEWS\n"
        "assert VIEWS['tasks']"
    )
    assert "horsies_tui.tasks.view" in loaded
    assert not loaded & {
        "pydantic",
        "horsies.findings.diagnose",
        "horsies.operations.pipeline",
        "horsies.views.schedules",
        "horsies_tui.command.grammar",
        "horsies_tui.overview.view",
        "horsies_tui.shell.preview_sheet",
        "horsies_tui.story.view",
        "horsies_tui.task.view",
    }


def test_after_the_first_rows_the_console_imports_all_that_a_key_opens() -> None:
    loaded = modules_after(
        "import asyncio, horsies_tui.shell.app\n"
        "from horsies_tui.shell.views import import_report, import_rest\n"
        "asyncio.run(import_report()), asyncio.run(import_rest())\n"
        "import gc\n"
        "assert gc.isenabled()"
    )
    assert loaded > {
        "horsies.findings.searches.crashed",
        "horsies_tui.health.alerts.finding_alerts",
        "horsies_tui.schedules.view",
        "horsies_tui.shell.preview_sheet",
    }


async def test_the_values_have_the_types_that_type_checkers_see() -> None:
    with inline(typed_shop.app) as queue:
        await typed_shop.sends()
        assert await typed_shop.starts() == "Hello Ada"
        assert {each.status.value for each in queue.started(typed_shop.Doubling)} == {"COMPLETED"}
        assert typed_shop.looks(typed_shop.greet.send("Ada")) == "Hello Ada"
        assert typed_shop.looks(typed_shop.greet.send("")) == "NO_NAME"
        wrong = typed_shop.greet.send(1)  # type: ignore[arg-type]
        assert isinstance(wrong, Err)
        assert typed_shop.looks(wrong) == wrong.err_value.message
        assert typed_shop.narrows(wrong) is None
        assert isinstance(typed_shop.narrows(typed_shop.greet.send("Ada")), TaskHandle)


def test_its_definitions_pass_the_checks() -> None:
    assert typed_shop.problems() == []
    assert typed_shop.failures == ["host"]
    with inline(typed_shop.app):
        assert next(typed_shop.in_memory()).sent() == []


def test_the_feeds_of_the_console_load_no_screen() -> None:
    loaded = modules_after(
        "import pkgutil, horsies_tui.feed\n"
        "for module in pkgutil.iter_modules(horsies_tui.feed.__path__, 'horsies_tui.feed.'):\n"
        "    __import__(module.name)"
    )
    assert not loaded & {"textual", "rich", "typer"}
