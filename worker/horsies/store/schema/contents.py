"""The expected tables, columns, triggers and indexes, which a damaged or foreign schema lacks."""

from __future__ import annotations

from dataclasses import dataclass

# Not horsies_schema_version: later releases of upstream keep a list of their own under that name, without our columns.
LEDGER = "horsies_console_schema"

SEQUENCE = "USAGE of the sequence"  # also in look.sql; GRANT INSERT ON a table does not include it


@dataclass(frozen=True, slots=True)
class TableContents:
    """A table: its documented columns, and those that are added to upstream's table.

    Only those triggers and indexes are listed without which workers get no notifications, are very slow, or do
    something twice, or without which the audit log believes its clients. `needs` are the privileges that a worker
    requires.
    """

    core: frozenset[str]
    added: frozenset[str] = frozenset()
    triggers: frozenset[str] = frozenset()
    indexes: frozenset[str] = frozenset()
    needs: tuple[str, ...] = ()

    @property
    def columns(self) -> frozenset[str]:
        return self.core | self.added


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


LEDGER_COLUMNS = _names("version name applied_at")

UPSTREAM_TABLES: dict[str, TableContents] = {
    "horsies_tasks": TableContents(
        _names(
            "id task_name queue_name priority args kwargs status sent_at enqueued_at claimed_at started_at completed_at"
            " failed_at result failed_reason error_code claimed claimed_by_worker_id good_until retry_count max_retries"
            " next_retry_at task_options worker_pid worker_hostname worker_process_name claim_expires_at enqueue_sha"
            " created_at updated_at"
        ),
        _names(
            "is_workflow_task finalizing_at finalizing_by_worker_id unique_key rerun_of workflow_paused_at"
            " uncounted_claim_at"
        ),
        triggers=_names("horsies_task_notify_trigger horsies_task_status_notify_trigger horsies_task_return_trigger"),
        indexes=_names(
            "ix_horsies_tasks_ready ix_horsies_tasks_ready_by_name ix_horsies_tasks_ready_until"
            " ix_horsies_tasks_in_flight ix_horsies_tasks_claimed_by uq_horsies_tasks_key_and_name"
        ),
        needs=("SELECT", "INSERT", "UPDATE"),
    ),
    "horsies_task_attempts": TableContents(
        _names(
            "id task_id attempt outcome will_retry started_at finished_at error_code error_message failed_reason"
            " worker_id worker_hostname worker_pid worker_process_name created_at"
        ),
        _names("output waited_ms"),
        indexes=_names("uq_horsies_task_attempts_task_attempt"),
        needs=("INSERT", SEQUENCE),
    ),
    "horsies_heartbeats": TableContents(
        _names("id task_id sender_id role sent_at hostname pid"),
        indexes=_names("idx_horsies_heartbeats_task_role_sent"),
        needs=("SELECT", "INSERT", SEQUENCE),
    ),
    "horsies_worker_states": TableContents(
        _names(
            "id worker_id snapshot_at hostname pid processes max_claim_batch max_claim_per_worker cluster_wide_cap"
            " queues queue_priorities queue_max_concurrency recovery_config tasks_running tasks_claimed memory_usage_mb"
            " memory_percent cpu_percent worker_started_at"
        ),
        _names(
            "children_memory_mb task_names horsies_version draining app_version container_memory_mb container_limit_mb"
            " largest_child_mb largest_child_pid child_limit_mb"
        ),
        triggers=_names("horsies_worker_state_notify_trigger"),
        indexes=_names("ix_horsies_worker_states_worker_latest"),
        needs=("INSERT", SEQUENCE),
    ),
    "horsies_schedule_state": TableContents(
        _names("schedule_name last_run_at next_run_at last_task_id run_count config_hash updated_at")
    ),
    "horsies_workflows": TableContents(
        _names(
            "id name status on_error output_task_index success_policy result error definition_key parent_workflow_id"
            " parent_task_index depth root_workflow_id sent_at created_at started_at completed_at updated_at"
        ),
        triggers=_names(
            "horsies_workflow_notify_trigger horsies_workflow_status_notify_trigger horsies_workflow_pause_trigger"
            " horsies_workflow_delete_trigger"
        ),
    ),
    "horsies_workflow_tasks": TableContents(
        _names(
            "id workflow_id task_index node_id task_name task_args task_kwargs queue_name priority dependencies"
            " args_from workflow_ctx_from allow_failed_deps join_type min_success task_options status task_id"
            " is_subworkflow sub_workflow_id sub_workflow_name sub_definition_key sub_workflow_summary result error"
            " created_at started_at completed_at"
        ),
        indexes=_names("ix_horsies_workflow_tasks_open"),
    ),
}

OUR_TABLES: dict[str, TableContents] = {
    "horsies_operator_actions": TableContents(
        _names(
            "id acted_at operation_id verb target_kind target_id outcome detail before_state after_state os_user"
            " os_host db_role reason filter undoes"
        ),
        triggers=_names("horsies_operator_action_sign_trigger"),
    ),
    "horsies_queue_state": TableContents(_names("queue_name paused_at paused_by reason updated_at")),
    "horsies_caps": TableContents(_names("queue_name"), needs=("SELECT", "INSERT", "UPDATE")),
    "horsies_worker_orders": TableContents(_names("worker_id draining_since ordered_by reason updated_at")),
    "horsies_sweep_state": TableContents(
        _names("sweep ran_at worker_id interval_ms report"), needs=("SELECT", "INSERT", "UPDATE")
    ),
    "horsies_pulse": TableContents(
        _names("only_row beaten_at gaps asked_at least_gap least_at"),
        _names("may_pause"),
        needs=("SELECT", "INSERT", "UPDATE"),
    ),
    "horsies_queue_samples": TableContents(_names("sampled_at queue_name waiting"), needs=("SELECT", "INSERT")),
    "horsies_outages": TableContents(_names("id began_at ended_at"), needs=("INSERT", SEQUENCE)),
    "horsies_sweeps": TableContents(
        _names("id swept_at worker_id expired repairs workflows"), needs=("INSERT", SEQUENCE)
    ),
    "horsies_worker_losses": TableContents(
        _names("id worker_id taken_at failed retried returned"), needs=("SELECT", "INSERT", SEQUENCE)
    ),
    "horsies_looks": TableContents(
        _names("look_id task_id worker_id claimed_at kind with_locals after_line asked_at answered_at answer"),
        needs=("SELECT", "UPDATE"),
    ),
    "horsies_progress": TableContents(
        _names("task_id started_at done total unit rate gap_s reported_at"), needs=("SELECT", "INSERT", "UPDATE")
    ),
    "horsies_duplicate_sends": TableContents(
        _names("task_id backend sends last_at"), needs=("SELECT", "INSERT", "UPDATE")
    ),
    "horsies_schedules": TableContents(
        _names("schedule_name config_hash definition registered_at paused_at paused_by reason skip_slot skipped_by")
    ),
    "horsies_schedule_runs": TableContents(_names("schedule_name slot sent_at task_id workflow_id ordered_by")),
    "horsies_schedulers": TableContents(
        _names("scheduler_id hostname pid schedules horsies_version started_at seen_at"), _names("lost_after_s")
    ),
}

TABLES = UPSTREAM_TABLES | OUR_TABLES
NAMES = (LEDGER, *TABLES)
