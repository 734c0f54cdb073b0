"""Spans of OpenTelemetry for sends and runs: `app.trace()`. Needs the extra `otel`; imported by that call alone.

A send is a PRODUCER span, whose context travels in the task's row. A run is a CONSUMER span in the child process,
current while user code runs, and a child of the send's; a retry links to the run before it, a node of a workflow to
those that it waited for. Attributes follow the semantic conventions for messaging.
"""

from __future__ import annotations

from contextlib import contextmanager
from importlib.metadata import version
from typing import TYPE_CHECKING, Final, TypeVar

from opentelemetry import trace
from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from horsies.domain.result import Err, Ok
from horsies.domain.trace import links_of, trace_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from opentelemetry.trace import TracerProvider

    from horsies.domain.trace import RunContext, Trace

T = TypeVar("T")

# Only the context of the trace: baggage is the application's own, of any size, and may be secret.
_PROPAGATOR: Final = TraceContextTextMapPropagator()
_SYSTEM: Final = {"messaging.system": "horsies"}


class OpenTelemetry:
    """The spans of one application in one process, by the tracer provider that it has set, or that is passed."""

    def __init__(self, tracer_provider: TracerProvider | None) -> None:
        self._tracer = trace.get_tracer("horsies", version("horsies-console"), tracer_provider)

    @contextmanager
    def sending(self, destination: str, attributes: Mapping[str, str | int]) -> Iterator[SendSpan]:
        """Yield the span of a send: to a queue, or of a workflow."""
        with self._tracer.start_as_current_span(
            f"send {destination}",
            kind=SpanKind.PRODUCER,
            attributes={
                **_SYSTEM,
                "messaging.operation.name": "send",
                "messaging.operation.type": "send",
                "messaging.destination.name": destination,
                **attributes,
            },
        ) as span:
            yield SendSpan(span)

    @contextmanager
    def running(self, task_id: str, task_name: str, context: RunContext) -> Iterator[RunSpan]:
        """Yield the span of a run, which continues the trace of the task's row."""
        queue, attempt, task_options = context
        carried = trace_of(task_options)
        with self._tracer.start_as_current_span(
            f"process {queue}",
            context=_PROPAGATOR.extract({name: value for name, value in carried.items() if isinstance(value, str)}),
            kind=SpanKind.CONSUMER,
            links=[Link(one) for one in map(_context_of, links_of(carried)) if one.is_valid],
            attributes={
                **_SYSTEM,
                "messaging.operation.name": "process",
                "messaging.operation.type": "process",
                "messaging.destination.name": queue,
                "messaging.message.id": task_id,
                "horsies.task.name": task_name,
                "horsies.task.attempt": attempt,
            },
        ) as span:
            yield RunSpan(span)


class SendSpan:
    """An open span of a send."""

    def __init__(self, span: Span) -> None:
        self._span = span

    @property
    def trace(self) -> Trace:
        return _carrier(self._span)

    def sent(self, answer: T) -> T:
        answers = answer if isinstance(answer, list) else [answer]
        for one in answers:
            if isinstance(one, Err):
                _fail(self._span, str(one.err_value.code), one.err_value.message)
            elif isinstance(one, Ok) and len(answers) == 1:
                stored = one.ok_value
                self._span.set_attribute("messaging.message.id", getattr(stored, "task_id", None) or stored.workflow_id)
        return answer


class RunSpan:
    """An open span of a run."""

    def __init__(self, span: Span) -> None:
        self._span = span

    @property
    def traceparent(self) -> str | None:
        return _carrier(self._span).get("traceparent")

    def failed(self, code: str | None, message: str | None) -> None:
        _fail(self._span, code or "_OTHER", message)


def _fail(span: Span, code: str, message: str | None) -> None:
    span.set_attribute("error.type", code)
    span.set_status(Status(StatusCode.ERROR, message))


def _carrier(span: Span) -> dict[str, str]:
    carrier: dict[str, str] = {}
    _PROPAGATOR.inject(carrier, trace.set_span_in_context(span))
    return carrier


def _context_of(traceparent: str) -> trace.SpanContext:
    return trace.get_current_span(_PROPAGATOR.extract({"traceparent": traceparent})).get_span_context()
