"""The details of a node's line besides its name and its state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from horsies.display.formatting import number

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from horsies.views import NodeView

_NAMED: Final = 5

_ENDED: Final = frozenset({"COMPLETED", "FAILED", "SKIPPED", "CANCELLED", "EXPIRED"})


def inconsistency(node: NodeView) -> str | None:
    """Return what is inconsistent about a node: it is open, and its task or child has ended or was deleted."""
    if node.status in _ENDED:
        return None
    if node.task_id is not None and node.task_status is None:
        return "the row of its task was deleted"
    if node.task_status in _ENDED:
        return f"its task is {node.task_status} already"
    return f"its child is {node.sub_status} already" if node.sub_status in _ENDED else None


def way_out(nodes: Iterable[NodeView], workflow_id: str, status: str) -> Iterator[str]:
    """The sentence below the nodes if some are inconsistent, for a moment or since a worker was killed."""
    names = [node.label for node in nodes if inconsistency(node) is not None]
    if not names or status not in ("RUNNING", "PAUSED"):
        return
    more = f" and {number(len(names) - _NAMED)} more" if len(names) > _NAMED else ""
    after = ", once it is resumed" if status == "PAUSED" else ""
    yield (
        f"inconsistent: {', '.join(names[:_NAMED])}{more}; where that lasts for longer than a moment,"
        f" `horsies workflows reconcile {workflow_id}` repairs it{after}"
    )


def details(node: NodeView) -> Iterator[str]:
    """Yield its join, the progress of its child or of its task, and its inconsistency."""
    if node.join == "any":
        yield f"any of {len(node.dependencies)}"
    elif node.join == "quorum":
        yield f"{node.min_success} of {len(node.dependencies)}"
    if node.allow_failed_deps and node.dependencies:
        yield "also after failures"
    if node.sub_total is not None:
        things = "items" if node.is_map else "nodes"
        failed = f", {number(node.sub_failed)} failed" if node.sub_failed else ""
        yield f"{number(node.sub_done or 0)} of {number(node.sub_total)} {things}{failed}"
    if node.progress is not None:
        yield " ".join(filter(None, (node.progress.percent, node.progress.amount)))
    if (found := inconsistency(node)) is not None:
        yield found
