"""The rules of recovery: when a worker's tasks count as lost, what then happens, and how long history is kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from horsies.config.rules import CheckedModel
from horsies.domain.damage import Damaged, is_whole, json_map
from horsies.domain.errors import ConfigurationError, ErrorCode
from horsies.domain.states import USUAL_CLAIM, USUAL_RUN

if TYPE_CHECKING:
    from collections.abc import Iterable

_HOUR_MS = 3_600_000
_MAX_REPORTED = 10_000_000
"""Of hours or ms; upstream allows less than half of it, and PostgreSQL's calendar ends some hours further back."""


class RecoveryConfig(CheckedModel):
    """Thresholds and intervals in milliseconds, retention in hours (None keeps everything).

    A run or a claim is stale if it sent no heartbeat for its threshold, although workers could send some. After a gap
    in which none could (longer than the threshold less two beats, and than a quarter of it), a sweep waits for 1.25
    intervals of the beats and half an interval more (1 to 5 s of it), or until the silence without all gaps is longer
    than the threshold.
    """

    rules_stand_alone = True

    auto_requeue_stale_claimed: bool = True
    """Let sweeps requeue claims without a heartbeat; otherwise these wait until their lease expires."""
    claimed_stale_threshold_ms: int = Field(default=USUAL_CLAIM.stale_ms, ge=1_000, le=_HOUR_MS)
    """Milliseconds without a heartbeat after which a claim is stale; by default at least two heartbeat intervals."""
    auto_fail_stale_running: bool = True
    """Let sweeps fail runs without a heartbeat with WORKER_CRASHED, and retry those whose policy lists that code."""
    running_stale_threshold_ms: int = Field(default=USUAL_RUN.stale_ms, ge=1_000, le=2 * _HOUR_MS)
    """Milliseconds without a heartbeat after which a run is stale; the worker stops its code shortly before that."""
    finalizing_stale_threshold_ms: int = Field(default=300_000, ge=1_000, le=2 * _HOUR_MS)
    """Milliseconds that a worker may keep announcing an outcome that it cannot store, before its run is stale."""
    crashed_worker_recovery_grace_ms: int = Field(default=10_000, ge=0, le=_HOUR_MS)
    """Milliseconds after the end of a task in which only the worker that ran it advances its workflow, and no sweep."""
    check_interval_ms: int = Field(default=30_000, ge=1_000, le=600_000)
    """Milliseconds between two sweeps of all workers together: the first worker to come does the next one."""
    runner_heartbeat_interval_ms: int = Field(default=USUAL_RUN.every_ms, ge=1_000, le=120_000)
    """Milliseconds between two heartbeats of a run.

    Shortened so that three fit into the time after which its code is stopped, and one may be lost: 7.5 s with a
    running_stale_threshold_ms of 30,000.
    """
    claimer_heartbeat_interval_ms: int = Field(default=USUAL_CLAIM.every_ms, ge=1_000, le=120_000)
    """Milliseconds between two heartbeats of a claim."""
    heartbeat_retention_hours: int | None = Field(default=24, ge=1, le=8_760)
    """Hours for which heartbeats are kept; at least as long as a sweep may need them."""
    worker_state_retention_hours: int | None = Field(default=168, ge=1, le=8_760)
    """Hours for which snapshots of workers are kept."""
    terminal_record_retention_hours: int | None = Field(default=720, ge=1, le=43_800)
    """Hours for which ended tasks and workflows are kept."""
    operator_action_retention_hours: int | None = Field(default=8_760, ge=1, le=87_600)
    """Hours for which the audit log, outages and the results of sweeps are kept.

    None, that is for ever, by default if nothing else is deleted.
    """

    def model_post_init(self, _context: object) -> None:
        """Let defaults follow what was set, so that one setting does not need a second one."""
        given = self.model_fields_set
        if "claimed_stale_threshold_ms" not in given:
            least = 2 * self.claimer_heartbeat_interval_ms
            self.__dict__["claimed_stale_threshold_ms"] = max(self.claimed_stale_threshold_ms, least)
        others = (
            self.heartbeat_retention_hours,
            self.worker_state_retention_hours,
            self.terminal_record_retention_hours,
        )
        if "operator_action_retention_hours" not in given and set(others) == {None}:
            self.__dict__["operator_action_retention_hours"] = None

    @classmethod
    def reported(cls, stored: str | None) -> RecoveryConfig | None:
        """Read the settings of a worker's snapshot, with defaults for what it lacks; None if it has none.

        Their ranges are not checked, because upstream allows others.
        """
        values = json_map(stored)
        if stored is None or (isinstance(values, Damaged) and not values):
            return None
        return cls.model_construct(**{name: value for name, value in values.items() if cls._has_type(name, value)})

    @classmethod
    def _has_type(cls, name: str, value: object) -> bool:
        known = cls.model_fields.get(name)
        if known is None:
            return False
        keeps_everything = value is None and name.endswith("_retention_hours")
        if is_whole(value):
            return is_whole(known.default) and 0 <= value <= _MAX_REPORTED
        return type(value) is type(known.default) or keeps_everything

    @property
    def run_stopped_after_ms(self) -> int:
        """The time from a run's last stored heartbeat until its code is stopped as by a timeout.

        A quarter of running_stale_threshold_ms earlier than that, at most 10 s, so that it can clean up.
        """
        return self.running_stale_threshold_ms - min(self.running_stale_threshold_ms // 4, 10_000)

    @property
    def run_killed_after_ms(self) -> int:
        """The time until its process is killed if it runs on, a tenth of the threshold before it, at most 1 s."""
        return self.running_stale_threshold_ms - min(self.running_stale_threshold_ms // 10, 1_000)

    def broken_rules(self) -> Iterable[ConfigurationError]:
        """Check that a threshold outlasts two beats: with less, one late beat makes a healthy task look dead."""
        for threshold, interval in (
            ("running_stale_threshold_ms", "runner_heartbeat_interval_ms"),
            ("claimed_stale_threshold_ms", "claimer_heartbeat_interval_ms"),
            ("finalizing_stale_threshold_ms", "runner_heartbeat_interval_ms"),
        ):
            have, least = getattr(self, threshold), 2 * getattr(self, interval)
            if have < least:
                yield ConfigurationError(
                    f"{threshold}={have} is below twice {interval}={least // 2}",
                    code=ErrorCode.CONFIG_INVALID_RECOVERY,
                    notes=["one late heartbeat would make a healthy task look dead"],
                    help_text=f"set {threshold} to at least {least}, or {interval} to at most {have // 2}",
                )
