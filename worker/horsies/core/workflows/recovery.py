"""Documented import path of the reconciliation of workflows."""

from horsies.workflow.repair import recover_stuck_workflows

__all__ = ["recover_stuck_workflows"]
