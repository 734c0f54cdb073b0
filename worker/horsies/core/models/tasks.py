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
from horsies.domain.infos import TaskAttemptInfo, TaskInfo
from horsies.domain.task_result import SubWorkflowError, TaskError, TaskResult

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
