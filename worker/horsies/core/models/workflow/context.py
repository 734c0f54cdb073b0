"""Documented import path of what a node can know of the others; stored rows name SubWorkflowSummary by it."""

from horsies.domain.errors import WorkflowContextMissingIdError as WorkflowContextMissingIdError
from horsies.domain.task_result import SubWorkflowSummary as SubWorkflowSummary
from horsies.workflow.context import WorkflowContext as WorkflowContext, WorkflowMeta as WorkflowMeta
