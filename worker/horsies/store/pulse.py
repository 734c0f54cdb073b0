"""The times in which this database could take heartbeats: a dead worker differs from one that could not beat."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from horsies.store.statements import statement

if TYPE_CHECKING:
    from datetime import datetime

    import asyncpg

    from horsies.config.recovery import RecoveryConfig


@dataclass(frozen=True, slots=True)
class Pulse:
    """By the database's clock, in column order. The gap is the last one that made live workers look dead.

    It began before all records, and `gap_began` is None, if it is the time before the first worker.
    """

    now: datetime
    beaten_at: datetime
    gap_began: datetime | None
    gap_ended: datetime | None
    spared_until: datetime | None

    @property
    def is_silent(self) -> bool:
        """True if no worker pulses now: then it is unknown whether the database was writable since `beaten_at`."""
        return self.gap_ended == self.now

    @property
    def is_first(self) -> bool:
        """True if the gap is the time before the first worker of this database: then nothing has failed."""
        return self.gap_began is None


def pulse_every_s(config: RecoveryConfig) -> float:
    """How often a worker's heartbeats try it, at least: a sweep that is first after an outage measures it the same."""
    return min(config.runner_heartbeat_interval_ms, config.claimer_heartbeat_interval_ms) / 4_000


async def write_pulse(
    connection: asyncpg.Connection, config: RecoveryConfig, every_s: float, *, lives: bool = True
) -> bool:
    """Record that heartbeats can be stored now; mostly a read, as one write in `every_s` is enough for all workers.

    To be called after a worker has stored its beats, so that the pulse stops with them. `lives=False` is for a command
    that sweeps once: it cannot go on pulsing, so it only records when it asked; see `pulse` of the schema.
    """
    return bool(
        await connection.fetchval(
            statement(__name__, "pulse"),
            every_s * 1000,
            config.running_stale_threshold_ms,
            config.runner_heartbeat_interval_ms,
            config.claimed_stale_threshold_ms,
            config.claimer_heartbeat_interval_ms,
            lives,
        )
    )


async def read_pulse(connection: asyncpg.Connection, threshold_ms: int, beat_ms: int) -> Pulse | None:
    """Read the pulse. None: no worker of this release has pulsed yet, and silence alone counts."""
    row = await connection.fetchrow(statement(__name__, "pulse_state"), threshold_ms, beat_ms)
    return None if row is None else Pulse(*row)
