"""A workflow's graph and story beside the list of workflows, or beside a finding about it."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from horsies_tui.actions import bindings_of
from horsies_tui.workflow.view import WorkflowView

if TYPE_CHECKING:
    from textual.binding import BindingType


class WorkflowBeside(WorkflowView, inherit_bindings=False):
    """The verbs act on the list's row, so none of them acts on the node under the graph's cursor."""

    BESIDE = True
    BINDINGS: ClassVar[list[BindingType]] = [*bindings_of("workflow.copy")]
