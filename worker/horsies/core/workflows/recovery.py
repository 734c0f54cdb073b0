"""Documented import path of the reconciliation of workflows."""

from horsies.workflow.handle import recover_stuck_workflows

__all__ = ["recover_stuck_workflows"]
