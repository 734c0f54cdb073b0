"""Failed sends and starts: a record in the log, an Err that warns if it is never read, or an exception.

Also aborts the caller's transaction after such a failure, and logs arguments that no task will get.
"""

from __future__ import annotations

import logging
import sys
from collections import Counter
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from horsies.domain.errors import calling_place
from horsies.domain.masking import mask
from horsies.domain.result import Err, Ok, Result, UnseenErr
from horsies.handle import SendFailedError, TaskSendErrorCode
from horsies.store.callers import CallerConnectionError, on_callers, on_callers_blocking
from horsies.store.statements import statement

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from horsies.config.app import AppConfig
    from horsies.handle import FailedSend, TaskHandle, TaskSendResult
    from horsies.store.callers import CallersConnection
    from horsies.store.enqueue import EnqueueRequest
    from horsies.store.loop_thread import CallSteps

    FailedT = TypeVar("FailedT", bound=FailedSend)

T = TypeVar("T")

_log = logging.getLogger("horsies")

_REMEDY = "check is_err(result), or use send_or_raise()"


def answer(result: Result[T, FailedT], config: AppConfig | None) -> Result[T, FailedT]:
    """Return the caller's result: a failure is logged at once, and again if its Err is dropped unread."""
    if not isinstance(result, Err) or is_on_purpose(result.err_value):
        return result
    if config is not None and config.raise_send_errors:
        or_raise(result)
    error = result.err_value
    words = f"{mask(error.message)} [{error.code}]{_place()}"
    _log.warning("%s", words)
    return UnseenErr(error, partial(_log_unread, words))


def answers(
    results: Sequence[TaskSendResult[TaskHandle[Any]]], config: AppConfig
) -> list[TaskSendResult[TaskHandle[Any]]]:
    """`answer` for the calls of one `send_many`: failures with the same reason are one record."""
    errors = [one.err_value for one in results if isinstance(one, Err) and not is_on_purpose(one.err_value)]
    if not errors:
        return list(results)
    if config.raise_send_errors:
        raise SendFailedError(errors[0], results) from errors[0].exception
    place = _place()
    reasons = Counter((str(error.code), mask(error.message)) for error in errors)
    for (code, message), count in reasons.items():
        _log.warning("%s", f"{message} [{code}]{f', {count:,} times' if count > 1 else ''}{place}")
    words = f"{len(errors):,} of {len(results):,} calls of a send_many{place}"
    answered = list(results)
    # One record is enough for all that is dropped: the first failure has it.
    first = next(at for at, one in enumerate(results) if isinstance(one, Err) and one.err_value is errors[0])
    answered[first] = UnseenErr(errors[0], partial(_log_unread, words))
    return answered


def warn_of_other_arguments(sent: Iterable[tuple[EnqueueRequest, TaskSendResult[TaskHandle[Any]]]]) -> None:
    """Log each live task that was found with other arguments: the caller may believe that it runs with these."""
    swallowed = Counter(
        (request.task_name, request.unique_key, result.ok_value.task_id)
        for request, result in sent
        if isinstance(result, Ok) and result.ok_value.arguments_differ
    )
    for (task_name, key, task_id), count in swallowed.items():
        words = f"task {task_name!r} was not sent: the live task {task_id} has its unique key {key!r}"
        times = f", {count:,} times" if count > 1 else ""
        _log.warning("%s", f"{words} and other arguments; see handle.arguments_differ{times}{_place()}")


def is_on_purpose(error: FailedSend) -> bool:
    """Return whether sends are suppressed, as in imports and tests: that is not an error."""
    return error.code == TaskSendErrorCode.SEND_SUPPRESSED


def or_raise(result: Result[T, FailedT]) -> T:
    """Return the handle, or SendFailedError with the reason."""
    if isinstance(result, Err):
        raise SendFailedError(result.err_value) from result.err_value.exception
    return result.ok_value


def aborting(connection: object, config: AppConfig | None, failed: Err[Any]) -> CallSteps[None]:
    """Make the caller's COMMIT fail: the transaction must not store its other rows without the task."""
    error = failed.err_value
    if connection is None or is_on_purpose(error) or (config is not None and not config.failed_send_aborts):
        return
    words = f"not committed, because {mask(error.message)} [{error.code}]; AppConfig(failed_send_aborts=False) commits"
    with suppress(CallerConnectionError):  # the transaction has failed already
        yield on_callers_blocking, on_callers, (connection, partial(_fail, words=words))


async def _fail(connection: CallersConnection, words: str) -> None:
    await connection.fetch(statement(__name__, "note_reason"), words)
    await connection.execute(statement(__name__, "fail_at_commit"))


def _place() -> str:
    place = calling_place()
    return f", at {place.file}:{place.line}" if place is not None else ""


def _log_unread(words: str) -> None:
    # While the interpreter ends, the parts of logging may be gone already.
    if not sys.is_finalizing():
        _log.warning("the result of a failed send was dropped unread; %s: %s", _REMEDY, words)
