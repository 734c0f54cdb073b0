"""TaskInfo and TaskAttemptInfo: the documented fields in the documented order."""

from __future__ import annotations

from dataclasses import MISSING, fields

import pytest

from horsies.domain.infos import TaskAttemptInfo, TaskInfo

TASK = """task_id task_name status queue_name priority retry_count max_retries next_retry_at sent_at enqueued_at
claimed_at started_at completed_at failed_at worker_hostname worker_pid worker_process_name"""
ATTEMPT = "task_id attempt outcome will_retry started_at finished_at"
TASK_OPTIONAL = "error_code result failed_reason attempts progress"
ATTEMPT_OPTIONAL = "error_code error_message failed_reason worker_id worker_hostname worker_pid worker_process_name"


@pytest.mark.parametrize(
    ("kind", "required", "optional"), [(TaskInfo, TASK, TASK_OPTIONAL), (TaskAttemptInfo, ATTEMPT, ATTEMPT_OPTIONAL)]
)
def test_the_fields_stand_in_the_documented_order(
    kind: type[TaskInfo] | type[TaskAttemptInfo], required: str, optional: str
) -> None:
    assert [field.name for field in fields(kind)] == [*required.split(), *optional.split()]
    defaults = {field.name: field.default for field in fields(kind) if field.default is not MISSING}
    assert defaults == dict.fromkeys(optional.split())
