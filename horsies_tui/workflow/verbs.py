"""The verbs that apply to workflows and nodes in their current states."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from horsies.operations.verb import WorkflowVerb
from horsies.operations.verbs import verbs_for

if TYPE_CHECKING:
    from collections.abc import Collection

    from horsies.operations.verb import Verb
    from horsies.views import NodeView, WorkflowStory

_CANNOT_GO_ON: Final = frozenset({"COMPLETED", "CANCELLED"})


def unfit_verbs(statuses: Collection[str]) -> frozenset[str]:
    """Return, of the verbs with an inverse, those for which none of these workflows is in the right state."""
    switches = (verb for verb in verbs_for("workflow") if verb.inverse is not None)
    return frozenset(verb.name for verb in switches if statuses and not offered(verb, statuses))


def offered(verb: Verb | None, statuses: Collection[str]) -> bool:
    """Return whether the footer offers the verb for workflows in these states; its key says why it does not apply."""
    return not isinstance(verb, WorkflowVerb) or any(map(verb.fits, statuses))


def why_no_value(story: WorkflowStory, node: NodeView) -> str | None:
    """Return why an operator cannot set this node's result, checked before the value is typed."""
    if node.status == "COMPLETED":
        return f"{node.label} is COMPLETED already"
    if story.row.status in _CANNOT_GO_ON:
        return f"{node.label} belongs to {story.row.name}, which is {story.row.status}"
    return None
