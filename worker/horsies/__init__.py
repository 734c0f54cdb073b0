"""Background tasks and workflows on PostgreSQL: the public names.

They are loaded on first use: `horsies --help` imports this package too, and pydantic alone would cost it 0.1 s.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # what type checkers and editors see; __getattr__ is what runs
    from horsies.app import Horsies as Horsies
    from horsies.config.app import (
        AppConfig as AppConfig,
        CustomQueueConfig as CustomQueueConfig,
        ExceptionMapper as ExceptionMapper,
        PostgresConfig as PostgresConfig,
        QueueMode as QueueMode,
        WorkerResilienceConfig as WorkerResilienceConfig,
    )
    from horsies.config.recovery import RecoveryConfig as RecoveryConfig
    from horsies.config.retry_policy import RetryPolicy as RetryPolicy
    from horsies.config.schedule import (
        CronSchedule as CronSchedule,
        DailySchedule as DailySchedule,
        HourlySchedule as HourlySchedule,
        IntervalSchedule as IntervalSchedule,
        MonthlySchedule as MonthlySchedule,
        ScheduleConfig as ScheduleConfig,
        SchedulePattern as SchedulePattern,
        TaskSchedule as TaskSchedule,
        WeeklySchedule as WeeklySchedule,
        WorkflowSchedule as WorkflowSchedule,
    )
    from horsies.domain.codes import (
        BuiltInTaskCode as BuiltInTaskCode,
        ContractCode as ContractCode,
        OperationalErrorCode as OperationalErrorCode,
        OutcomeCode as OutcomeCode,
        RetrievalCode as RetrievalCode,
        StopCode as StopCode,
    )
    from horsies.domain.errors import (
        ErrorCode as ErrorCode,
        MultipleValidationErrors as MultipleValidationErrors,
        ValidationReport as ValidationReport,
        WorkflowContextMissingIdError as WorkflowContextMissingIdError,
        WorkflowValidationError as WorkflowValidationError,
    )
    from horsies.domain.result import (
        Err as Err,
        Ok as Ok,
        Result as Result,
        is_err as is_err,
        is_ok as is_ok,
    )
    from horsies.domain.schedule_times import Weekday as Weekday
    from horsies.domain.states import (
        TASK_TERMINAL_STATES as TASK_TERMINAL_STATES,
        WORKFLOW_TASK_TERMINAL_STATES as WORKFLOW_TASK_TERMINAL_STATES,
        WORKFLOW_TERMINAL_STATES as WORKFLOW_TERMINAL_STATES,
        OnError as OnError,
        TaskAttemptOutcome as TaskAttemptOutcome,
        TaskStatus as TaskStatus,
        WorkflowStatus as WorkflowStatus,
        WorkflowTaskStatus as WorkflowTaskStatus,
    )
    from horsies.domain.task_result import (
        SubWorkflowError as SubWorkflowError,
        SubWorkflowSummary as SubWorkflowSummary,
        TaskError as TaskError,
        TaskResult as TaskResult,
    )
    from horsies.handle import (
        BrokerErrorCode as BrokerErrorCode,
        BrokerOperationError as BrokerOperationError,
        BrokerResult as BrokerResult,
        SendFailedError as SendFailedError,
        TaskHandle as TaskHandle,
        TaskSendError as TaskSendError,
        TaskSendErrorCode as TaskSendErrorCode,
        TaskSendPayload as TaskSendPayload,
        TaskSendResult as TaskSendResult,
    )
    from horsies.hooks import (
        ChildStarted as ChildStarted,
        ChildStopped as ChildStopped,
        RunEnded as RunEnded,
        RunFailed as RunFailed,
        RunStarted as RunStarted,
        TaskFailed as TaskFailed,
        TaskRetried as TaskRetried,
        WorkerStarted as WorkerStarted,
        WorkerStopped as WorkerStopped,
    )
    from horsies.store.reading import (
        ProgressInfo as ProgressInfo,
        TaskAttemptInfo as TaskAttemptInfo,
        TaskInfo as TaskInfo,
        WorkflowTaskInfo as WorkflowTaskInfo,
    )
    from horsies.task import TaskSendOptions as TaskSendOptions
    from horsies.task.current import (
        CurrentTask as CurrentTask,
        current_task as current_task,
        progress as progress,
        track as track,
    )
    from horsies.workflow.context import (
        WorkflowContext as WorkflowContext,
        WorkflowMeta as WorkflowMeta,
    )
    from horsies.workflow.definition import WorkflowDefinition as WorkflowDefinition
    from horsies.workflow.graph import slugify as slugify
    from horsies.workflow.handle import (
        HandleErrorCode as HandleErrorCode,
        HandleOperationError as HandleOperationError,
        HandleResult as HandleResult,
        WorkflowHandle as WorkflowHandle,
        pause_workflow as pause_workflow,
        pause_workflow_sync as pause_workflow_sync,
        recover_stuck_workflows as recover_stuck_workflows,
        resume_workflow as resume_workflow,
        resume_workflow_sync as resume_workflow_sync,
    )
    from horsies.workflow.nodes import (
        AnyNode as AnyNode,
        MapNode as MapNode,
        NodeKey as NodeKey,
        SubWorkflowNode as SubWorkflowNode,
        SuccessCase as SuccessCase,
        SuccessPolicy as SuccessPolicy,
        TaskNode as TaskNode,
        from_node as from_node,
    )
    from horsies.workflow.spec import WorkflowSpec as WorkflowSpec
    from horsies.workflow.starting import (
        WorkflowStartError as WorkflowStartError,
        WorkflowStartErrorCode as WorkflowStartErrorCode,
        WorkflowStartResult as WorkflowStartResult,
        start_workflow as start_workflow,
        start_workflow_async as start_workflow_async,
    )

__version__ = "0.1.0"

_NAMES = """
app: Horsies
config.app: AppConfig CustomQueueConfig ExceptionMapper PostgresConfig QueueMode WorkerResilienceConfig
config.recovery: RecoveryConfig
config.retry_policy: RetryPolicy
config.schedule: CronSchedule DailySchedule HourlySchedule IntervalSchedule MonthlySchedule WeeklySchedule
config.schedule: ScheduleConfig SchedulePattern TaskSchedule WorkflowSchedule
domain.codes: BuiltInTaskCode ContractCode OperationalErrorCode OutcomeCode RetrievalCode StopCode
domain.errors: ErrorCode MultipleValidationErrors ValidationReport WorkflowContextMissingIdError
domain.errors: WorkflowValidationError
store.reading: ProgressInfo TaskAttemptInfo TaskInfo WorkflowTaskInfo
domain.result: Err Ok Result is_err is_ok
domain.schedule_times: Weekday
domain.states: TASK_TERMINAL_STATES WORKFLOW_TASK_TERMINAL_STATES WORKFLOW_TERMINAL_STATES OnError TaskAttemptOutcome
domain.states: TaskStatus WorkflowStatus WorkflowTaskStatus
domain.task_result: SubWorkflowError SubWorkflowSummary TaskError TaskResult
handle: BrokerErrorCode BrokerOperationError BrokerResult SendFailedError TaskHandle TaskSendError TaskSendErrorCode
handle: TaskSendPayload TaskSendResult
hooks: ChildStarted ChildStopped RunEnded RunFailed RunStarted TaskFailed TaskRetried WorkerStarted WorkerStopped
task: TaskSendOptions
task.current: CurrentTask current_task progress track
workflow.context: WorkflowContext WorkflowMeta
workflow.definition: WorkflowDefinition
workflow.graph: slugify
workflow.handle: HandleErrorCode HandleOperationError HandleResult WorkflowHandle recover_stuck_workflows
workflow.handle: pause_workflow pause_workflow_sync resume_workflow resume_workflow_sync
workflow.nodes: AnyNode MapNode NodeKey SubWorkflowNode SuccessCase SuccessPolicy TaskNode from_node
workflow.spec: WorkflowSpec
workflow.starting: WorkflowStartError WorkflowStartErrorCode WorkflowStartResult start_workflow start_workflow_async
"""
"""The public names by their modules, as in the imports above."""
_HOME_OF = {
    name: f"{__name__}.{module}"
    for module, _, names in (line.partition(": ") for line in _NAMES.strip().splitlines())
    for name in names.split()
}

__all__ = sorted([*_HOME_OF, "__version__"])  # noqa: PLE0605 - a list, though computed


if not TYPE_CHECKING:  # for a type checker every misspelt name would be Any

    def __getattr__(name: str) -> Any:
        if name not in _HOME_OF:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(_HOME_OF[name]), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return __all__
