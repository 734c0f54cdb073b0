"""Runs user code: every return value and exception is turned into a TaskResult."""

from __future__ import annotations

import asyncio
import traceback
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from horsies.domain.codec import EXCEPTION_TYPE
from horsies.domain.codes import OperationalErrorCode
from horsies.domain.task_result import TaskError, TaskResult

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from horsies.domain.exception_codes import ExceptionCodes
    from horsies.task.returns import Promise


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
