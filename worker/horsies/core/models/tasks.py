"""Documented import path of results, codes and retry policies."""

from horsies.config.retry_policy import RetryPolicy as RetryPolicy
from horsies.domain.codes import (
    BUILTIN_CODE_REGISTRY as BUILTIN_CODE_REGISTRY,
    BuiltInTaskCode as BuiltInTaskCode,
    ContractCode as ContractCode,
    OperationalErrorCode as OperationalErrorCode,
    OutcomeCode as OutcomeCode,
    RetrievalCode as RetrievalCode,
)
from horsies.domain.task_result import (
    SubWorkflowError as SubWorkflowError,
    TaskError as TaskError,
    TaskResult as TaskResult,
)
from horsies.store.reading import TaskAttemptInfo as TaskAttemptInfo, TaskInfo as TaskInfo
