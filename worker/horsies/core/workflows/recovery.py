"""Documented import path of the reconciliation of workflows."""

from horsies.workflow.handle import recover_stuck_workflows as recover_stuck_workflows
