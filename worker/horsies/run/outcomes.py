"""The outcome of a job, made fit for its columns: text that PostgreSQL accepts, of limited size; and a stop of it."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from horsies.domain.codec import clean_text, storable_task_result
from horsies.domain.codes import OperationalErrorCode, to_builtin
from horsies.domain.task_result import TaskError, TaskResult

if TYPE_CHECKING:
    from collections.abc import Mapping

RESULT_LIMIT_BYTES: Final = 16 * 1024 * 1024
_CODE_LIMIT: Final = 255
_MESSAGE_LIMIT: Final = 8_000

Outcome: TypeAlias = tuple[bool, str, str | None, str | None]
"""True if there is a value; the text of the result column, the error's code and its message."""
Report: TypeAlias = tuple[int, Outcome, float, bool, str | None, bool]
"""An outcome as it is sent: number, outcome, seconds, whether the task's code was called, the span of the run, and
whether the control socket has log records from before."""


def outcome_of(result: TaskResult[Any, Any]) -> Outcome:
    """Return what to store for `result`; an error in its place if it cannot be encoded or is too large."""
    stored, text = storable_task_result(result)
    size = len(text) if text.isascii() else len(text.encode())
    if size > RESULT_LIMIT_BYTES:
        stored, text = storable_task_result(TaskResult(err=_too_large(size)))
    if stored.is_ok():
        return (True, text, None, None)
    error = stored.err
    if not isinstance(error, TaskError):
        return (False, text, None, clean_text(str(error), _MESSAGE_LIMIT))
    code = error.error_code.value if isinstance(error.error_code, Enum) else error.error_code
    message = None if error.message is None else clean_text(error.message, _MESSAGE_LIMIT)
    return (False, text, None if code is None else clean_text(str(code), _CODE_LIMIT), message)


def failed(
    code: str,
    message: str,
    exception: BaseException | None = None,
    data: Mapping[str, Any] | None = None,
) -> Outcome:
    """Return the outcome of a job that ends with an error of the engine."""
    error = TaskError(error_code=to_builtin(code), message=message, exception=exception, data=data)
    return outcome_of(TaskResult(err=error))


class TaskStopped(BaseException):
    """Raised inside user code that must stop; `except Exception` there does not catch it."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code

    def outcome(self, exception: BaseException) -> Outcome:
        """Return the outcome of the job; the traceback of `exception` shows where it was stopped."""
        return failed(self.code, str(self), exception)


def _too_large(size: int) -> TaskError:
    return TaskError(
        error_code=OperationalErrorCode.WORKER_SERIALIZATION_ERROR,
        message=f"the result takes {size:,} bytes as JSON, more than the {RESULT_LIMIT_BYTES:,} that are stored; "
        "keep the value elsewhere and return where it is",
        data={"size_bytes": size, "limit_bytes": RESULT_LIMIT_BYTES},
    )
