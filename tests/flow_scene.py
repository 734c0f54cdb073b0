"""Nodes of a workflow, constructed for tests."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from horsies.config.recovery import RecoveryConfig
from horsies.views import NodeStory, NodeView, WorkflowRow, WorkflowStory
from horsies_tui.look.glyphs import UNICODE, Glyphs
from horsies_tui.workflow.graph_labels import Labels

NOW = datetime(2026, 11, 18, 12, 0, tzinfo=UTC)


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


def a_node(
    index: int, label: str = "", status: str = "PENDING", needs: tuple[int, ...] = (), **fields: Any
) -> NodeView:
    usual: dict[str, Any] = {
        "index": index,
        "node_id": label or f"step_{index}",
        "name": f"shop.{label or index}",
        "status": status,
        "dependencies": needs,
        "join": "all",
        "min_success": None,
        "allow_failed_deps": False,
        "args_from": {},
        "ctx_from": (),
        "queue": "default",
        "priority": 100,
        "task_id": None,
        "task_status": None,
        "retry_count": 0,
        "max_retries": 0,
        "next_retry_at": None,
        "error_code": None,
        "started_at": None,
        "completed_at": None,
        "last_beat": None,
        "worker_id": None,
        "worker_hostname": None,
        "worker_pid": None,
        "is_subworkflow": False,
        "sub_workflow_id": None,
        "sub_definition_key": None,
        "sub_status": None,
        "sub_total": None,
        "sub_done": None,
        "sub_failed": None,
    }
    return NodeView(**{**usual, **fields})


def labels(*nodes: NodeView, glyphs: Glyphs = UNICODE) -> Labels:
    return Labels({node.index: node for node in nodes}, NOW, glyphs, RecoveryConfig())


def a_row(**fields: Any) -> WorkflowRow:
    usual: dict[str, Any] = {
        "id": "019a7c2e-aaaa-7000-8000-00000000e0d1",
        "name": "month_end",
        "status": "RUNNING",
        "on_error": "pause",
        "definition_key": None,
        "parent_workflow_id": None,
        "parent_task_index": None,
        "root_workflow_id": "019a7c2e-aaaa-7000-8000-00000000e0d1",
        "depth": 0,
        "created_at": ago(600),
        "sent_at": ago(600),
        "started_at": ago(600),
        "completed_at": None,
        "updated_at": ago(60),
        "total": 7,
        "completed": 2,
        "failed": 1,
        "skipped": 1,
        "running": 1,
        "waiting": 2,
        "error_code": None,
        "failed_node": "import_us",
    }
    return WorkflowRow(**{**usual, **fields})


def a_story(*nodes: NodeView, **fields: Any) -> WorkflowStory:
    usual: dict[str, Any] = {
        "now": NOW,
        "row": a_row(),
        "nodes": nodes,
        "result": None,
        "error": None,
        "success_policy": None,
        "output_index": None,
        "parent": None,
        "audit": (),
    }
    return WorkflowStory(**{**usual, **fields})


def a_node_story(node: NodeView, **fields: Any) -> NodeStory:
    usual: dict[str, Any] = {
        "now": NOW,
        "workflow_id": a_row().id,
        "workflow_name": "month_end",
        "workflow_status": "RUNNING",
        "node": node,
        "args": None,
        "kwargs": None,
        "options": None,
        "result": None,
        "summary": None,
        "audit": (),
    }
    return NodeStory(**{**usual, **fields})
