"""`horsies tasks fail`: the task ends as FAILED. One that was interrupted keeps its row except for the error."""

from __future__ import annotations

from typing import TYPE_CHECKING

from horsies.domain.states import TaskStatus
from horsies.operations.verb import Ending, TaskVerb, sources

if TYPE_CHECKING:
    from collections.abc import Iterator

    from horsies.operations.facts import TaskFacts


def _effects(facts: TaskFacts) -> Iterator[str]:
    if interrupted := facts.count("FAILED"):
        yield f"{interrupted} interrupted: accepted as failed, they do not run again"
    yield "callers that wait for a result get OPERATOR_FAILED"


VERB = TaskVerb(
    name="fail",
    place=2,
    title="Fail",
    will="will be failed",
    done="failed",
    help="Mark waiting, claimed or running tasks as FAILED, with OPERATOR_FAILED.\n\n"
    "A RUNNING task is taken from its worker, which stops it; side effects of user code remain.",
    example="horsies tasks fail 1cd6ba9a --reason 'the customer is gone'",
    key="F",
    hint="Mark as FAILED.",
    footer=True,
    sources=sources("fail"),
    wrong_state=lambda status: f"it is already {status}",
    ends=Ending(TaskStatus.FAILED, "OPERATOR_FAILED"),
    attempt_code="OPERATOR_FAILED",
    past="failed",
    in_workflows="the node fails with OPERATOR_FAILED, and its workflow continues from there",
    effects=_effects,
)
