"""`horsies tasks cancel`: the task ends as CANCELLED."""

from __future__ import annotations

from typing import TYPE_CHECKING

from horsies.domain.codes import OutcomeCode
from horsies.domain.states import TaskStatus
from horsies.operations.verb import Ending, TaskVerb, sources

if TYPE_CHECKING:
    from collections.abc import Iterator

    from horsies.operations.facts import TaskFacts


def _effects(facts: TaskFacts) -> Iterator[str]:
    yield "callers that wait for a result get TASK_CANCELLED"


VERB = TaskVerb(
    name="cancel",
    place=3,
    title="Cancel",
    will="will be cancelled",
    done="cancelled",
    help="Cancel waiting, claimed or running tasks.\n\n"
    "A RUNNING task is taken from its worker, which stops it; side effects of user code remain.",
    example="horsies tasks cancel --filter 'queue:mail status:pending' --dry-run",
    key="C",
    hint="Cancel the task.",
    footer=True,
    sources=sources("cancel"),
    wrong_state=lambda status: f"it is already {status}",
    ends=Ending(TaskStatus.CANCELLED, OutcomeCode.TASK_CANCELLED),
    attempt_code="OPERATOR_CANCELLED",
    past="cancelled",
    in_workflows="the node fails with TASK_CANCELLED, and its workflow continues from there",
    effects=_effects,
)
