"""Runs user code: every return value and exception is turned into a TaskResult; exceptions get their error code."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from horsies.domain.codec import EXCEPTION_TYPE
from horsies.domain.codes import ContractCode, OperationalErrorCode, to_builtin
from horsies.domain.errors import WorkflowContextMissingIdError
from horsies.domain.task_result import TaskError, TaskResult

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from horsies.domain.codes import BuiltInTaskCode
    from horsies.task.returns import Promise


CodeByException: TypeAlias = Mapping[type[BaseException], str]


@dataclass(frozen=True, slots=True)
class ExceptionCodes:
    """The rules for one task. Only the exact class counts, so a new subclass never changes its meaning silently."""

    task_mapper: CodeByException | None
    app_mapper: CodeByException
    task_default: str | None
    app_default: str

    def is_mapped(self, exception: BaseException) -> bool:
        return type(exception) in {**self.app_mapper, **(self.task_mapper or {})}

    def code_of(self, exception: BaseException) -> BuiltInTaskCode | str:
        """The enum member if the rules name a built-in code."""
        if isinstance(exception, WorkflowContextMissingIdError):
            return ContractCode.WORKFLOW_CTX_MISSING_ID
        kind = type(exception)
        if self.task_mapper is not None and kind in self.task_mapper:
            return to_builtin(self.task_mapper[kind])
        if kind in self.app_mapper:
            return to_builtin(self.app_mapper[kind])
        return to_builtin(self.app_default if self.task_default is None else self.task_default)


@dataclass(frozen=True, slots=True)
class Judge:
    """The rules for the outcomes of one task."""

    function_name: str
    promise: Promise
    codes: ExceptionCodes

    def call(self, fn: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> TaskResult[Any, Any]:
        """Run `fn` in this process. Only KeyboardInterrupt is passed on: ctrl+c is meant for the whole program."""
        try:
            return self.judge(fn(*args, **kwargs))
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - user code ends here, sys.exit() included
            return self.failure(error)

    async def call_async(
        self, fn: Callable[..., Awaitable[Any]], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> TaskResult[Any, Any]:
        """`call` for `async def`; cancellations from outside are passed on too, for the timeouts around it."""
        try:
            return self.judge(await fn(*args, **kwargs))
        except (KeyboardInterrupt, GeneratorExit):
            raise
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            return self.failure(error)
        except BaseException as error:  # noqa: BLE001 - user code ends here, sys.exit() included
            return self.failure(error)

    def judge(self, returned: object) -> TaskResult[Any, Any]:
        """The returned TaskResult, or an error if it is none, or not of the declared types."""
        if isinstance(returned, TaskResult):
            broken = self.promise.broken_by(returned)
            return returned if broken is None else TaskResult(err=broken)
        what = "None" if returned is None else f"{type(returned).__name__}, not a TaskResult"
        return TaskResult(
            err=TaskError(
                error_code=OperationalErrorCode.TASK_EXCEPTION,
                message=f"task {self.function_name} returned {what}; return TaskResult(ok=...) or TaskResult(err=...)",
            )
        )

    def failure(self, error: BaseException) -> TaskResult[Any, TaskError]:
        # str(error) is user code and may raise; the traceback module handles that.
        text = str(traceback.TracebackException(type(error), error, None))
        kind = type(error).__name__
        # An exception with a code of its own was foreseen; its text is often passed on to the application's users.
        what = "" if self.codes.is_mapped(error) else f"Unhandled exception in task {self.function_name}: "
        return TaskResult(
            err=TaskError(
                exception=error,
                error_code=self.codes.code_of(error),
                message=f"{what}{kind}: {text}",
                data={EXCEPTION_TYPE: kind},
            )
        )
