"""Documented import path of results, codes and retry policies."""

from horsies.config.retry_policy import RetryPolicy
from horsies.domain.codes import (
    BUILTIN_CODE_REGISTRY,
    BuiltInTaskCode,
    ContractCode,
    OperationalErrorCode,
    OutcomeCode,
    RetrievalCode,
)
from horsies.domain.task_result import SubWorkflowError, TaskError, TaskResult
from horsies.store.reading import TaskAttemptInfo, TaskInfo

__all__ = [
    "BUILTIN_CODE_REGISTRY",
    "BuiltInTaskCode",
    "ContractCode",
    "OperationalErrorCode",
    "OutcomeCode",
    "RetrievalCode",
    "RetryPolicy",
    "SubWorkflowError",
    "TaskAttemptInfo",
    "TaskError",
    "TaskInfo",
    "TaskResult",
]
