"""Error codes of failed tasks: the built-in families and the format of user codes."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Final, TypeAlias

CHILD_ENDED: Final = "the child process that ran this task ended: "
"""The beginning of the reason of a WORKER_CRASHED whose worker lives; its signal or exit code follows."""


class OperationalErrorCode(StrEnum):
    """An operational failure around the task."""

    UNHANDLED_EXCEPTION = "UNHANDLED_EXCEPTION"
    TASK_EXCEPTION = "TASK_EXCEPTION"
    WORKER_CRASHED = "WORKER_CRASHED"
    BROKER_ERROR = "BROKER_ERROR"
    WORKER_RESOLUTION_ERROR = "WORKER_RESOLUTION_ERROR"
    WORKER_SERIALIZATION_ERROR = "WORKER_SERIALIZATION_ERROR"
    """Stored arguments cannot be read or do not fit the signature, types included; or a result cannot be stored."""
    RESULT_DESERIALIZATION_ERROR = "RESULT_DESERIALIZATION_ERROR"
    WORKFLOW_ENQUEUE_FAILED = "WORKFLOW_ENQUEUE_FAILED"
    SUBWORKFLOW_LOAD_FAILED = "SUBWORKFLOW_LOAD_FAILED"


class ContractCode(StrEnum):
    """A value does not fit its declared type."""

    RETURN_TYPE_MISMATCH = "RETURN_TYPE_MISMATCH"
    PYDANTIC_HYDRATION_ERROR = "PYDANTIC_HYDRATION_ERROR"
    WORKFLOW_CTX_MISSING_ID = "WORKFLOW_CTX_MISSING_ID"


class RetrievalCode(StrEnum):
    """A result could not be fetched; the task itself may be fine."""

    WAIT_TIMEOUT = "WAIT_TIMEOUT"
    TASK_NOT_FOUND = "TASK_NOT_FOUND"
    WORKFLOW_NOT_FOUND = "WORKFLOW_NOT_FOUND"
    RESULT_NOT_AVAILABLE = "RESULT_NOT_AVAILABLE"
    RESULT_NOT_READY = "RESULT_NOT_READY"


class OutcomeCode(StrEnum):
    """The work ended without a value, on purpose or by its own rules."""

    TASK_CANCELLED = "TASK_CANCELLED"
    TASK_EXPIRED = "TASK_EXPIRED"
    WORKFLOW_PAUSED = "WORKFLOW_PAUSED"
    WORKFLOW_FAILED = "WORKFLOW_FAILED"
    WORKFLOW_CANCELLED = "WORKFLOW_CANCELLED"
    UPSTREAM_SKIPPED = "UPSTREAM_SKIPPED"
    SUBWORKFLOW_FAILED = "SUBWORKFLOW_FAILED"
    WORKFLOW_SUCCESS_CASE_NOT_MET = "WORKFLOW_SUCCESS_CASE_NOT_MET"


class StopCode(StrEnum):
    """The run was stopped. Stored as plain text: upstream could not read these codes as built-in ones."""

    TASK_TIMEOUT = "TASK_TIMEOUT"
    """It took longer than its timeout_ms."""
    TASK_INTERRUPTED = "TASK_INTERRUPTED"
    """Its worker was stopped, and the task may not run again automatically."""


EXPIRED_MESSAGE: Final = "good_until passed before the task was started"
"""With TASK_EXPIRED, by whichever of a worker, a sweep and an operator it was found."""

BuiltInTaskCode: TypeAlias = OperationalErrorCode | ContractCode | RetrievalCode | OutcomeCode

_FAMILIES: tuple[type[BuiltInTaskCode], ...] = (OperationalErrorCode, ContractCode, RetrievalCode, OutcomeCode)

BUILTIN_CODE_REGISTRY: dict[str, BuiltInTaskCode] = {code.value: code for family in _FAMILIES for code in family}

_CODE = re.compile(r"[A-Z][A-Z0-9_]*")
_EXCEPTION_NAME = re.compile(r"[A-Za-z0-9_.]*(Error|Exception)")


def why_not_a_code(text: str) -> str | None:
    """Return why `text` cannot be an error code; None if it can."""
    if _CODE.fullmatch(text):
        return None
    if _EXCEPTION_NAME.fullmatch(text):
        return f"{text!r} looks like an exception class; map it to a code with exception_mapper"
    return f"{text!r} is not UPPER_SNAKE_CASE (A-Z, 0-9 and _, beginning with a letter)"


def to_builtin(code: str) -> BuiltInTaskCode | str:
    """Return the enum member if `code` names one, else the text unchanged."""
    return BUILTIN_CODE_REGISTRY.get(code, code)
