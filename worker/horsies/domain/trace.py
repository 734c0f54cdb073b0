"""The trace in a row: `trace` in task_options, beside the retry policy; and the interface of an application's tracer.

Rows of tasks that are sent without tracing have no such key. In it: `traceparent` and `tracestate` of W3C Trace
Context, which the run continues, and `links`, the traceparents of earlier runs that it follows.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, TypeVar

from horsies.domain.codec import to_json
from horsies.domain.damage import json_map

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from contextlib import AbstractContextManager

KEY: Final = "trace"
LINKS: Final = "links"
_MAX_LINKS: Final = 32
_SIGN: Final = f'"{KEY}":'

Trace: TypeAlias = "Mapping[str, Any]"
T = TypeVar("T")


class Sending(Protocol):
    """An open span of a send."""

    @property
    def trace(self) -> Trace:
        """The trace that the row takes along; empty if nothing is recorded."""
        ...

    def sent(self, answer: T) -> T:
        """Record the result of the send, an Ok or an Err, or a list of them, and return it unchanged."""
        ...


class _Untraced:
    """The span in use where nothing is traced."""

    trace: Final[Trace] = {}

    def sent(self, answer: T) -> T:
        return answer


UNTRACED: Final = _Untraced()


class Running(Protocol):
    """An open span of a run."""

    @property
    def traceparent(self) -> str | None: ...

    def failed(self, code: str | None, message: str | None) -> None: ...


class Tracing(Protocol):
    """The spans of an application; see horsies.tracing."""

    def sending(self, destination: str, attributes: Mapping[str, str | int]) -> AbstractContextManager[Sending]: ...

    def running(self, task_id: str, task_name: str, context: RunContext) -> AbstractContextManager[Running]: ...


RunContext: TypeAlias = tuple[str, int, str | None]
"""What a child needs to know of a run: queue, attempt, the task's options if they have a trace."""


def run_context(queue: str, attempt: int, task_options: str | None) -> RunContext:
    return queue, attempt, task_options if task_options is not None and _SIGN in task_options else None


def trace_of(task_options: str | None) -> dict[str, Any]:
    """Return the trace; empty for options without one, or that cannot be read: rows may be written by hand."""
    if task_options is None or _SIGN not in task_options:
        return {}
    try:
        options = json.loads(task_options)
    except (ValueError, RecursionError):
        return {}
    trace = options.get(KEY) if isinstance(options, dict) else None
    return trace if isinstance(trace, dict) else {}


def with_trace(task_options: str | None, trace: Trace) -> str:
    return to_json({**json_map(task_options), KEY: dict(trace)}, "task_options")


def following(task_options: str | None, *traceparents: str | None) -> str | None:
    """Return the options with links to these runs, for the run after them; unchanged without a trace or a run."""
    trace, runs = trace_of(task_options), [run for run in traceparents if run is not None]
    if not runs:
        return task_options
    return with_trace(task_options, {**trace, LINKS: list(dict.fromkeys(runs))[-_MAX_LINKS:]})


def links_of(trace: Trace) -> Sequence[str]:
    links = trace.get(LINKS)
    return [link for link in links if isinstance(link, str)] if isinstance(links, list) else []
