"""What the migrations leave behind: it tells a whole schema from a torn or a foreign one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

# Not horsies_schema_version: later releases of upstream keep a list of their own under that name, without our columns.
LEDGER = "horsies_console_schema"

SEQUENCE = "USAGE of the sequence"  # also in look.sql; GRANT INSERT ON a table does not give it


@dataclass(frozen=True, slots=True)
class Table:
    """A table that is there from version `since` on, with its core columns; `later` tells since when it has others.

    Where upstream made it, it has the core columns before. Of triggers and indexes only those are listed, each with the
    version that brings it, without which workers hear nothing, crawl, or do a thing twice. `needs` are the privileges
    that a worker cannot do without.
    """

    since: int
    core: frozenset[str]
    later: Mapping[str, int] = field(default_factory=dict)
    triggers: Mapping[str, int] = field(default_factory=dict)
    indexes: Mapping[str, int] = field(default_factory=dict)
    needs: tuple[str, ...] = ()

    def columns(self, version: int) -> frozenset[str]:
        return self.core | {column for column, since in self.later.items() if since <= version}

    @property
    def of_upstream(self) -> bool:
        return self.since == 1


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


LEDGER_COLUMNS = _names("version name applied_at")

TABLES: dict[str, Table] = {
    "horsies_tasks": Table(
        1,
        _names(
            "id task_name queue_name priority args kwargs status sent_at enqueued_at claimed_at started_at completed_at"
            " failed_at result failed_reason error_code claimed claimed_by_worker_id good_until retry_count max_retries"
            " next_retry_at task_options worker_pid worker_hostname worker_process_name claim_expires_at enqueue_sha"
            " created_at updated_at"
        ),
        {
            "is_workflow_task": 1,
            "finalizing_at": 1,
            "finalizing_by_worker_id": 1,
            "unique_key": 5,
            "rerun_of": 6,
            "workflow_paused_at": 8,
            "uncounted_claim_at": 8,
        },
        triggers={
            "horsies_task_notify_trigger": 1,
            "horsies_task_status_notify_trigger": 1,
            "horsies_task_return_trigger": 8,
        },
        indexes={
            "ix_horsies_tasks_ready": 2,
            "ix_horsies_tasks_ready_by_name": 8,
            "ix_horsies_tasks_ready_until": 8,
            "ix_horsies_tasks_in_flight": 2,
            "ix_horsies_tasks_claimed_by": 2,
            "uq_horsies_tasks_unique_key": 5,
        },
        needs=("SELECT", "INSERT", "UPDATE"),
    ),
    "horsies_task_attempts": Table(
        1,
        _names(
            "id task_id attempt outcome will_retry started_at finished_at error_code error_message failed_reason"
            " worker_id worker_hostname worker_pid worker_process_name created_at"
        ),
        indexes={"uq_horsies_task_attempts_task_attempt": 2},
        needs=("INSERT", SEQUENCE),
    ),
    "horsies_heartbeats": Table(
        1,
        _names("id task_id sender_id role sent_at hostname pid"),
        indexes={"idx_horsies_heartbeats_task_role_sent": 2},
        needs=("SELECT", "INSERT", SEQUENCE),
    ),
    "horsies_worker_states": Table(
        1,
        _names(
            "id worker_id snapshot_at hostname pid processes max_claim_batch max_claim_per_worker cluster_wide_cap"
            " queues queue_priorities queue_max_concurrency recovery_config tasks_running tasks_claimed memory_usage_mb"
            " memory_percent cpu_percent worker_started_at"
        ),
        {"children_memory_mb": 1, "task_names": 6, "horsies_version": 6, "draining": 6},
        triggers={"horsies_worker_state_notify_trigger": 1},
        indexes={"ix_horsies_worker_states_worker_latest": 2},
        needs=("INSERT", SEQUENCE),
    ),
    "horsies_schedule_state": Table(
        1, _names("schedule_name last_run_at next_run_at last_task_id run_count config_hash updated_at")
    ),
    "horsies_workflows": Table(
        1,
        _names(
            "id name status on_error output_task_index success_policy result error definition_key parent_workflow_id"
            " parent_task_index depth root_workflow_id sent_at created_at started_at completed_at updated_at"
        ),
        triggers={
            "horsies_workflow_notify_trigger": 1,
            "horsies_workflow_status_notify_trigger": 1,
            "horsies_workflow_pause_trigger": 8,
            "horsies_workflow_delete_trigger": 8,
        },
    ),
    "horsies_workflow_tasks": Table(
        1,
        _names(
            "id workflow_id task_index node_id task_name task_args task_kwargs queue_name priority dependencies"
            " args_from workflow_ctx_from allow_failed_deps join_type min_success task_options status task_id"
            " is_subworkflow sub_workflow_id sub_workflow_name sub_definition_key sub_workflow_summary result error"
            " created_at started_at completed_at"
        ),
        indexes={"ix_horsies_workflow_tasks_open": 7},
    ),
    "horsies_operator_actions": Table(
        3,
        _names(
            "id acted_at operation_id verb target_kind target_id outcome detail before_state after_state os_user"
            " os_host db_role reason filter undoes"
        ),
    ),
    "horsies_queue_state": Table(3, _names("queue_name paused_at paused_by reason updated_at")),
    "horsies_worker_orders": Table(6, _names("worker_id draining_since ordered_by reason updated_at")),
    "horsies_sweep_state": Table(
        6, _names("sweep ran_at worker_id interval_ms report"), needs=("SELECT", "INSERT", "UPDATE")
    ),
    "horsies_pulse": Table(
        9, _names("only_row beaten_at gaps asked_at least_gap least_at"), needs=("SELECT", "INSERT", "UPDATE")
    ),
    "horsies_worker_losses": Table(
        9, _names("id worker_id taken_at failed retried returned"), needs=("SELECT", "INSERT", SEQUENCE)
    ),
}

NAMES = (LEDGER, *TABLES)
