"""A traced application: each process appends its spans, as one line of JSON each, to the file in TEST_SPANS."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult
from worker_app import app

from horsies import OnError, SubWorkflowNode, TaskError, TaskNode, TaskResult, WorkflowDefinition, WorkflowSpec


class ToFile(SpanExporter):
    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        with Path(os.environ["TEST_SPANS"]).open("a") as file:
            file.writelines(json.dumps(json.loads(span.to_json(indent=None))) + "\n" for span in spans)
        if os.environ.get("TEST_EXPORTER") == "broken":
            raise OSError("the collector is away")
        return SpanExportResult.SUCCESS


provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(ToFile()))
tracer = trace.get_tracer("test", tracer_provider=provider)
app.trace(provider)


@app.task("inside")
def inside() -> TaskResult[str, TaskError]:
    """The span that is current in user code, whose child it starts."""
    with tracer.start_as_current_span("inner"):
        pass
    return TaskResult(ok=f"{trace.get_current_span().get_span_context().span_id:016x}")


@app.task("inside_async")
async def inside_async() -> TaskResult[str, TaskError]:
    with tracer.start_as_current_span("inner"):
        pass
    return TaskResult(ok=f"{trace.get_current_span().get_span_context().span_id:016x}")


@app.task("three")
def three() -> TaskResult[list[int], TaskError]:
    return TaskResult(ok=[1, 2, 3])


@app.task("double")
def double(number: int) -> TaskResult[int, TaskError]:
    return TaskResult(ok=2 * number)


class Child(WorkflowDefinition[int]):
    name = "child"
    definition_key = "test.child"
    one = TaskNode(double, {"number": 4}, node_id="one")

    class Meta:
        output = None
        on_error = OnError.FAIL


@app.workflow_builder()
def traced_workflow() -> WorkflowSpec[list[int]]:
    first = TaskNode(three, node_id="first")
    side = TaskNode(double, {"number": 7}, node_id="side")
    each = TaskNode.map(double, over=first)
    child = SubWorkflowNode(Child, node_id="child")
    last = TaskNode(three, waits_for=[first, side], node_id="last")
    return app.workflow("traced", [first, side, each, child, last], output=last, definition_key="test.traced")
