"""`horsies tasks expire`: waiting tasks past their deadline end as EXPIRED, as by the sweep."""

from __future__ import annotations

from horsies.domain.codes import EXPIRED_MESSAGE, OutcomeCode
from horsies.domain.states import TaskStatus
from horsies.operations.verb import Ending, TaskVerb, sources

VERB = TaskVerb(
    name="expire",
    place=7,
    title="Expire",
    will="will be expired",
    done="expired",
    help="End waiting tasks whose `good_until` has passed, as the next sweep would.",
    example="horsies tasks expire --filter 'status:pending queue:mail'",
    key="K",
    hint="Expire tasks past their good_until.",
    on_recovery=True,
    sources=sources("expire"),
    wrong_state=lambda status: f"it is {status}; only a PENDING task can expire",
    refuses=(__name__, "expire_refusal"),
    ends=Ending(TaskStatus.EXPIRED, OutcomeCode.TASK_EXPIRED, EXPIRED_MESSAGE),
    in_workflows="the node fails with TASK_EXPIRED, and its workflow continues from there",
    no_way_back=lambda _: "its good_until has passed: requeue it to run it anyway",
)
