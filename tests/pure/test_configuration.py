"""The configuration classes: ranges, rules between fields, and how broken rules are reported."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from pydantic import ValidationError

from horsies.config.app import AppConfig, CustomQueueConfig, PostgresConfig, QueueMode, WorkerResilienceConfig
from horsies.config.recovery import RecoveryConfig
from horsies.domain.errors import (
    ConfigurationError,
    ErrorCode,
    HorsiesError,
    MultipleValidationErrors,
)
from horsies.lifecycle.retention import ages_of
from horsies.run.contract import LeaseTerms

BROKER = PostgresConfig(database_url="postgresql+psycopg://u:hunter2@db/app")


def broken(make: Any) -> list[HorsiesError]:
    """The errors that a constructor raises, in order."""
    with pytest.raises(ConfigurationError) as caught:
        make()
    assert isinstance(caught.value, ValueError)
    if isinstance(caught.value, MultipleValidationErrors):
        return list(caught.value.report.errors)
    return [caught.value]


def test_the_three_documented_nones_switch_off_all_cleanup() -> None:
    names = ("heartbeat_retention_hours", "worker_state_retention_hours", "terminal_record_retention_hours")
    off = dict.fromkeys(names)
    assert set(ages_of(RecoveryConfig(**off)).values()) == {None}
    assert RecoveryConfig(**off, operator_action_retention_hours=24).operator_action_retention_hours == 24
    for name in names:
        assert RecoveryConfig(**{**off, name: 5}).operator_action_retention_hours == 8_760


def test_the_seeds_invalid_example_is_a_value_error_with_a_code_and_a_way_out() -> None:
    (error,) = broken(lambda: RecoveryConfig(runner_heartbeat_interval_ms=30_000, running_stale_threshold_ms=30_000))
    assert error.code is ErrorCode.CONFIG_INVALID_RECOVERY
    assert "running_stale_threshold_ms=30000 is below twice runner_heartbeat_interval_ms=30000" in error.message
    assert error.help_text == (
        "set running_stale_threshold_ms to at least 60000, or runner_heartbeat_interval_ms to at most 15000"
    )


def test_every_broken_threshold_is_reported_at_once() -> None:
    errors = broken(
        lambda: RecoveryConfig(
            runner_heartbeat_interval_ms=30_000,
            claimer_heartbeat_interval_ms=60_000,
            running_stale_threshold_ms=30_000,
            claimed_stale_threshold_ms=119_999,
            finalizing_stale_threshold_ms=59_999,
        )
    )
    assert [error.message.split("=")[0] for error in errors] == [
        "running_stale_threshold_ms",
        "claimed_stale_threshold_ms",
        "finalizing_stale_threshold_ms",
    ]


def test_a_field_out_of_range_does_not_hide_the_broken_rules() -> None:
    errors = broken(
        lambda: RecoveryConfig(running_stale_threshold_ms=30_000, claimed_stale_threshold_ms=2_000, check_interval_ms=5)
    )
    assert [error.message.split("=")[0] for error in errors] == [
        "check_interval_ms: Input should be greater than or equal to 1000",
        "running_stale_threshold_ms",
        "claimed_stale_threshold_ms",
    ]


def test_a_nested_dict_reports_our_own_error_not_pydantics_wrapping() -> None:
    (error,) = broken(lambda: AppConfig(broker=BROKER, recovery={"running_stale_threshold_ms": 1_000}))
    assert error.code is ErrorCode.CONFIG_INVALID_RECOVERY


def test_the_first_pause_of_a_retry_is_not_above_the_longest() -> None:
    (error,) = broken(lambda: WorkerResilienceConfig(db_retry_initial_ms=600, db_retry_max_ms=500))
    assert error.code is ErrorCode.CONFIG_INVALID_RESILIENCE


def test_the_priority_of_a_queue_is_1_to_100() -> None:
    for priority in (0, 101):
        with pytest.raises(ValidationError, match="priority"):
            CustomQueueConfig(name="mail", priority=priority)


@pytest.mark.parametrize("name", ["q" * 200, "ü" * 27, "", "   ", "a\x00b", "a\nb"])
def test_a_queue_name_that_the_trigger_or_a_screen_cannot_take_is_refused(name: str) -> None:
    (error,) = broken(lambda: CustomQueueConfig(name=name))
    assert error.code is ErrorCode.CONFIG_INVALID_QUEUE_MODE


@pytest.mark.parametrize("name", ["q" * 52, "ü" * 26])
def test_a_queue_name_of_52_bytes_is_accepted(name: str) -> None:
    assert CustomQueueConfig(name=name).name == name


def test_a_version_is_a_short_printable_text() -> None:
    assert AppConfig(broker=BROKER).version is None
    assert AppConfig(broker=BROKER, version="1.4.2+ü").version == "1.4.2+ü"
    for bad in ("", "v" * 101, "1.4\udc80"):
        with pytest.raises(ValidationError, match="version"):
            AppConfig(broker=BROKER, version=bad)
    (error,) = broken(lambda: AppConfig(broker=BROKER, version="1.4\x1b[31m"))
    assert "not printable" in str(error)


def test_unknown_tasks_are_left_or_failed_and_nothing_else() -> None:
    assert AppConfig(broker=BROKER, unknown_tasks="fail").unknown_tasks == "fail"
    with pytest.raises(ValidationError, match="'leave' or 'fail'"):
        AppConfig(broker=BROKER, unknown_tasks="ignore")  # type: ignore[arg-type]


def queue(name: str = "mail") -> CustomQueueConfig:
    return CustomQueueConfig(name=name)


@pytest.mark.parametrize(
    ("settings", "code"),
    [
        ({"custom_queues": [queue()]}, "HRS-200"),
        ({"custom_queues": []}, "HRS-200"),
        ({"queue_mode": QueueMode.CUSTOM}, "HRS-200"),
        ({"queue_mode": QueueMode.CUSTOM, "custom_queues": []}, "HRS-200"),
        ({"queue_mode": QueueMode.CUSTOM, "custom_queues": [queue(), queue()]}, "HRS-200"),
        ({"default_queue": "mail"}, "HRS-200"),
        ({"queue_mode": QueueMode.CUSTOM, "custom_queues": [queue()], "default_queue": "post"}, "HRS-200"),
        ({"cluster_wide_cap": 0}, "HRS-201"),
        ({"cluster_wide_cap": 5, "prefetch_buffer": 1, "claim_lease_ms": 60_000}, "HRS-201"),
        ({"prefetch_buffer": -1}, "HRS-202"),
        ({"prefetch_buffer": 1}, "HRS-202"),
        ({"claim_lease_ms": 0}, "HRS-202"),
        ({"claim_lease_ms": 59_999}, "HRS-202"),
        ({"claim_lease_ms": 200_000}, "HRS-202"),
        ({"max_claim_renew_age_ms": 59_999}, "HRS-202"),
        ({"max_claim_renew_age_ms": 0}, "HRS-202"),
        ({"exception_mapper": {"TimeoutError": "TIMEOUT"}}, "HRS-209"),
        ({"exception_mapper": {TimeoutError: "TimeoutError"}}, "HRS-209"),
        ({"exception_mapper": {TimeoutError: "timed out"}}, "HRS-209"),
        ({"exception_mapper": {TimeoutError: 5}}, "HRS-209"),
        ({"exception_mapper": [TimeoutError]}, "HRS-209"),
        ({"default_unhandled_error_code": "oops"}, "HRS-209"),
        ({"default_unhandled_error_code": None}, "HRS-209"),
    ],
)
def test_each_rule_of_the_application_has_its_code(settings: dict[str, Any], code: str) -> None:
    (error,) = broken(lambda: AppConfig(broker=BROKER, **settings))
    assert error.code is not None
    assert error.code.value == code
    assert error.help_text


def test_the_lease_is_measured_against_the_configured_beat() -> None:
    slow = RecoveryConfig(claimer_heartbeat_interval_ms=60_000)
    (error,) = broken(lambda: AppConfig(broker=BROKER, recovery=slow, claim_lease_ms=60_000))
    assert "claim_lease_ms=60000 is below twice claimer_heartbeat_interval_ms=60000" in error.message
    assert AppConfig(broker=BROKER, recovery=slow, claim_lease_ms=120_000)


@pytest.mark.parametrize("beat_ms", [1_000, 30_000, 30_001, 60_000, 60_001, 120_000])
def test_an_interval_of_claims_needs_no_second_setting(beat_ms: int) -> None:
    config = AppConfig(broker=BROKER, recovery=RecoveryConfig(claimer_heartbeat_interval_ms=beat_ms))
    assert config.effective_claim_lease_ms == max(60_000, 2 * beat_ms)
    assert config.recovery.claimed_stale_threshold_ms == max(120_000, 2 * beat_ms)
    assert config.max_claim_renew_age_ms == max(180_000, 2 * beat_ms)
    with pytest.raises(ConfigurationError, match="claimed_stale_threshold_ms=239999 is below twice"):
        RecoveryConfig(claimer_heartbeat_interval_ms=120_000, claimed_stale_threshold_ms=239_999)


def test_another_wrong_field_does_not_make_a_default_a_broken_rule() -> None:
    with pytest.raises(ValidationError, match="check_interval_ms"):
        RecoveryConfig(claimer_heartbeat_interval_ms=120_000, check_interval_ms=1)


def test_all_broken_rules_of_an_application_are_reported_together() -> None:
    errors = broken(
        lambda: AppConfig(
            broker=BROKER,
            custom_queues=[queue()],
            cluster_wide_cap=-1,
            prefetch_buffer=-1,
            default_unhandled_error_code="x",
        )
    )
    assert [error.code.value for error in errors if error.code] == ["HRS-200", "HRS-201", "HRS-202", "HRS-209"]


def test_an_unknown_setting_is_refused() -> None:
    with pytest.raises(ValidationError, match="cluster_cap"):
        AppConfig(broker=BROKER, cluster_cap=5)  # type: ignore[call-arg]


def test_the_logged_configuration_hides_the_password(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        AppConfig(broker=BROKER).log_config()
    (record,) = caplog.records
    assert record.getMessage().startswith("AppConfig:")
    assert "u:***@db/app" in record.getMessage()
    assert "hunter2" not in record.getMessage()


def test_a_child_process_does_not_log_the_configuration(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HORSIES_CHILD_PROCESS", "1")
    with caplog.at_level(logging.INFO):
        AppConfig(broker=BROKER).log_config()
    assert not caplog.records


@pytest.mark.parametrize(
    ("threshold_ms", "stopped_ms", "killed_ms"),
    [(2_000, 1_500, 1_800), (6_000, 4_500, 5_400), (40_000, 30_000, 39_000), (300_000, 290_000, 299_000)],
)
def test_a_run_without_heartbeats_ends_before_it_counts_as_dead(
    threshold_ms: int, stopped_ms: int, killed_ms: int
) -> None:
    config = RecoveryConfig(running_stale_threshold_ms=threshold_ms, runner_heartbeat_interval_ms=1_000)
    assert (config.run_stopped_after_ms, config.run_killed_after_ms) == (stopped_ms, killed_ms)


@pytest.mark.parametrize(
    ("threshold_ms", "beat_ms"), [(2_000, 1_000), (3_000, 1_000), (6_000, 2_000), (30_000, 10_000), (300_000, 30_000)]
)
def test_a_run_that_is_spared_ends_before_a_sweep_may_count_it_as_stale(threshold_ms: int, beat_ms: int) -> None:
    """The worst case: it beat an interval and a quarter before a gap that is just too short to count."""
    terms = LeaseTerms.of(RecoveryConfig(running_stale_threshold_ms=threshold_ms, runner_heartbeat_interval_ms=beat_ms))
    interval_ms = min(beat_ms, terms.stop_ms / 3)
    longest_harmless_gap_ms = max(threshold_ms - 2 * beat_ms, threshold_ms / 4)
    moment = int((1.25 * interval_ms + longest_harmless_gap_ms) * 1_000_000)
    killed_at_ms = terms.spared_from(moment) / 1_000_000 + terms.kill_ms
    assert killed_at_ms <= threshold_ms
    assert terms.spared_from(moment) / 1_000_000 + terms.stop_ms > moment / 1_000_000 + 500
