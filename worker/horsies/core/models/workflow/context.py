"""Documented import path of what a node can know of the others; stored rows name SubWorkflowSummary by it."""

from __future__ import annotations

from horsies.domain.errors import WorkflowContextMissingIdError
from horsies.domain.task_result import SubWorkflowSummary
from horsies.workflow.context import WorkflowContext, WorkflowMeta

__all__ = ["SubWorkflowSummary", "WorkflowContext", "WorkflowContextMissingIdError", "WorkflowMeta"]
