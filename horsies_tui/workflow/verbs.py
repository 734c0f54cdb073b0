"""Which verbs apply to workflows and nodes in their current states."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from horsies.operations.workflows import WorkflowVerb

if TYPE_CHECKING:
    from collections.abc import Collection

    from horsies.views import NodeView, WorkflowStory

_ONLY_FOR: Final = {WorkflowVerb.PAUSE: "RUNNING", WorkflowVerb.RESUME: "PAUSED"}
_OFFERED_FOR: Final = {
    WorkflowVerb.CANCEL: frozenset({"PENDING", "RUNNING", "PAUSED"}),
    WorkflowVerb.RETRY_FROM_FAILED: frozenset({"RUNNING", "PAUSED", "FAILED"}),
    WorkflowVerb.RECONCILE: frozenset({"RUNNING"}),
    WorkflowVerb.RERUN: frozenset({"COMPLETED", "FAILED", "CANCELLED"}),
}
_CANNOT_GO_ON: Final = frozenset({"COMPLETED", "CANCELLED"})


def unfit_verbs(statuses: Collection[str]) -> frozenset[str]:
    """The verbs for which none of these workflows is in the right state; their keys are not offered."""
    return frozenset(str(verb) for verb, status in _ONLY_FOR.items() if statuses and status not in statuses)


def offered(verb: str, statuses: Collection[str]) -> bool:
    """Whether the footer offers the verb for workflows in these states; its key still reports why it does not apply."""
    fitting = _OFFERED_FOR.get(WorkflowVerb(verb)) if verb in list(WorkflowVerb) else None
    return fitting is None or bool(fitting & {*statuses})


def why_no_value(story: WorkflowStory, node: NodeView) -> str | None:
    """Why an operator cannot set this node's result, checked before the value is typed."""
    if node.status == "COMPLETED":
        return f"{node.label} is COMPLETED already"
    if story.row.status in _CANNOT_GO_ON:
        return f"{node.label} belongs to {story.row.name}, which is {story.row.status}"
    return None
