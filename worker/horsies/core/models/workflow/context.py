"""The path under which stored rows name SubWorkflowSummary."""

from __future__ import annotations

from horsies.domain.task_result import SubWorkflowSummary

__all__ = ["SubWorkflowSummary"]
