"""The text of errors; the transition table; task ids, fingerprints and slot ids."""

from __future__ import annotations

import pickle
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from uuid import RFC_4122, UUID

import pytest
from hypothesis import given, strategies as st

from horsies.domain.codes import (
    why_not_a_code,
)
from horsies.domain.errors import (
    ConfigurationError,
    ConfigurationErrors,
    ErrorCode,
    HorsiesError,
    MultipleValidationErrors,
    SourceLocation,
    ValidationReport,
    WorkflowValidationError,
    raise_collected,
    render,
)
from horsies.domain.ids import canonical_time, enqueue_sha, new_task_id, scheduled_task_id
from horsies.domain.states import (
    TASK_TERMINAL_STATES,
    TASK_TRANSITIONS,
    WORKFLOW_TASK_TERMINAL_STATES,
    WORKFLOW_TERMINAL_STATES,
    Mover,
    TaskStatus,
    TransitionVerb,
    WorkflowStatus,
    WorkflowTaskStatus,
)


def test_an_error_reads_like_a_compilers(tmp_path: Path) -> None:
    source = tmp_path / "shop.py"
    source.write_text("first\n    bad = thing(1)\n")
    error = (
        HorsiesError("the graph has a cycle", code=ErrorCode.WORKFLOW_CYCLE_DETECTED)
        .with_location(SourceLocation(str(source), 2, 11, 16))
        .with_note("a waits for b\nand b for a")
        .with_help("remove one of them")
    )
    assert str(error) == (
        "error[HRS-007]: the graph has a cycle\n"
        f" --> {source}:2:11\n"
        "  |\n"
        "2 |     bad = thing(1)\n"
        "  |           ^^^^^\n"
        "  = note: a waits for b\n"
        "          and b for a\n"
        "  = help: remove one of them"
    )


def test_without_a_column_the_whole_statement_is_underlined(tmp_path: Path) -> None:
    source = tmp_path / "shop.py"
    source.write_text("    bad()\n")
    assert str(HorsiesError("no", location=SourceLocation(str(source), 1))).endswith("  |     ^^^^^")


def test_a_file_that_cannot_be_read_leaves_the_place_alone() -> None:
    assert str(HorsiesError("no", location=SourceLocation("gone.py", 7))) == "error: no\n --> gone.py:7"


def test_colour_only_adds_escape_codes() -> None:
    error = ConfigurationError("no", code=ErrorCode.BROKER_INVALID_URL, help_text="yes")
    coloured = render(error, colour=True)
    assert "\x1b[" in coloured
    assert "\x1b[" not in str(error)


def test_one_error_is_raised_as_itself_and_several_as_a_report() -> None:
    raise_collected([])
    one, two, three = ConfigurationError("1"), ConfigurationError("2"), WorkflowValidationError("3")
    with pytest.raises(ConfigurationError) as single:
        raise_collected([one])
    assert single.value is one
    inner = MultipleValidationErrors(ValidationReport((two, three)))
    with pytest.raises(MultipleValidationErrors) as several:
        raise_collected([one, inner])
    assert several.value.report.errors == (one, two, three)
    assert str(several.value).endswith("error: aborting due to 3 previous errors")


def test_errors_survive_the_way_through_a_pipe() -> None:
    """Children report to their parent by pickle; a report must arrive unchanged."""
    one = ConfigurationError("1", code=ErrorCode.BROKER_INVALID_URL, help_text="mend it").with_note("n")
    several = ConfigurationErrors(ValidationReport((one, ConfigurationError("2"))))
    for error in (one, several):
        arrived = pickle.loads(pickle.dumps(error))
        assert type(arrived) is type(error)
        assert str(arrived) == str(error)


def test_every_state_can_be_reached_and_every_live_one_left() -> None:
    assert {arrow.target for arrow in TASK_TRANSITIONS} == set(TaskStatus)
    assert set(TaskStatus) - TASK_TERMINAL_STATES <= {arrow.source for arrow in TASK_TRANSITIONS}


def test_only_an_operator_leaves_a_terminal_state() -> None:
    leaving = [
        arrow
        for arrow in TASK_TRANSITIONS
        if arrow.source in TASK_TERMINAL_STATES and arrow.target not in TASK_TERMINAL_STATES
    ]
    assert {arrow.who for arrow in leaving} == {(Mover.OPERATOR,)}
    assert {arrow.verb for arrow in leaving} == {TransitionVerb.REQUEUE, TransitionVerb.UNDO}


def test_no_arrow_is_written_twice_and_each_says_who_and_when() -> None:
    arrows = [(arrow.source, arrow.verb, arrow.target) for arrow in TASK_TRANSITIONS]
    assert len(set(arrows)) == len(arrows)
    assert all(arrow.who and arrow.guard for arrow in TASK_TRANSITIONS)
    assert {arrow.verb for arrow in TASK_TRANSITIONS} == set(TransitionVerb)


def test_terminal_states_know_that_they_are() -> None:
    assert {status for status in TaskStatus if status.is_terminal} == TASK_TERMINAL_STATES
    assert {status for status in WorkflowStatus if status.is_terminal} == WORKFLOW_TERMINAL_STATES
    assert {status for status in WorkflowTaskStatus if status.is_terminal} == WORKFLOW_TASK_TERMINAL_STATES


@pytest.mark.parametrize("code", ["A", "RATE_LIMITED", "HTTP_429", "WORKER_CRASHED"])
def test_upper_snake_case_is_a_code(code: str) -> None:
    assert why_not_a_code(code) is None


@pytest.mark.parametrize("code", ["", "rate_limited", "Rate", "_A", "9A", "A-B", "A B", "Ä", "A\n"])
def test_anything_else_is_not_a_code(code: str) -> None:
    assert "UPPER_SNAKE_CASE" in (why_not_a_code(code) or "")


@pytest.mark.parametrize("code", ["TimeoutError", "requests.RequestException", "MyException"])
def test_an_exception_class_name_gets_its_own_hint(code: str) -> None:
    assert "exception_mapper" in (why_not_a_code(code) or "")


def test_an_id_is_a_version_7_uuid_that_tells_its_time() -> None:
    before = time.time_ns() // 1_000_000
    task_id = new_task_id()
    after = time.time_ns() // 1_000_000
    parsed = UUID(task_id)
    assert str(parsed) == task_id
    assert (parsed.version, parsed.variant) == (7, RFC_4122)
    assert before <= parsed.int >> 80 <= after


def test_ids_of_many_threads_differ_and_sort_within_each() -> None:
    with ThreadPoolExecutor(8) as threads:
        made = list(threads.map(lambda _: [new_task_id() for _ in range(2_000)], range(8)))
    assert all(ids == sorted(ids) for ids in made)
    assert len({task_id[:18] for ids in made for task_id in ids}) == 16_000


def test_a_clock_that_is_set_back_does_not_bring_old_ids_back(monkeypatch: pytest.MonkeyPatch) -> None:
    latest = new_task_id()
    monkeypatch.setattr(time, "time_ns", lambda: 0)
    following = [new_task_id() for _ in range(5_000)]
    assert [latest, *following] == sorted([latest, *following])
    assert {UUID(task_id).version for task_id in following} == {7}


SEND: dict[str, Any] = {
    "task_name": "demo.add",
    "queue_name": "default",
    "priority": 100,
    "args_json": "[1,2]",
    "kwargs_json": None,
    "sent_at": datetime(2026, 1, 2, 3, 4, 5, 678, UTC),
    "good_until": None,
    "enqueue_delay_seconds": None,
    "task_options": '{"retry_policy":null,"good_until":null}',
}


def test_the_enqueue_fingerprint_of_the_contract() -> None:
    assert enqueue_sha(**SEND) == "b521547d30ae8182cc435ac9da57f62946dd24256340ba3926c7ad09e79036c5"


def test_the_slot_id_of_the_contract() -> None:
    slot = datetime(2026, 1, 2, 3, tzinfo=UTC)
    assert scheduled_task_id("nightly", slot) == "784f255b-b917-5a7a-b181-c14986886c08"


@given(st.text(), st.datetimes(timezones=st.just(UTC)))
def test_a_slot_id_is_a_uuid_that_depends_on_name_and_slot(name: str, slot: datetime) -> None:
    task_id = scheduled_task_id(name, slot)
    assert UUID(task_id).version == 5
    assert task_id == scheduled_task_id(name, slot)
    assert task_id != scheduled_task_id(name + "x", slot)


def test_canonical_time_is_utc_with_six_decimals_and_four_digits_of_year() -> None:
    berlin = timezone(timedelta(hours=1))
    assert canonical_time(datetime(2026, 1, 2, 3, tzinfo=berlin)) == "2026-01-02T02:00:00.000000+00:00"
    assert canonical_time(datetime(800, 1, 2, 3, tzinfo=UTC)) == "0800-01-02T03:00:00.000000+00:00"


def test_a_moment_without_zone_is_refused() -> None:
    with pytest.raises(ValueError, match="no time zone"):
        canonical_time(datetime(2026, 1, 2))  # noqa: DTZ001
