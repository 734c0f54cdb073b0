"""Texts about workers: liveness and its evidence, current work, settings, and the sums of all of them."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from horsies.domain.quantities import counted
from horsies.views import GONE_AFTER_S, LATE_AFTER_S, Liveness
from horsies.views.workers import SNAPSHOT_EVERY_S
from horsies_tui.intents import Fact, damage_facts
from horsies_tui.look.tones import Tone
from horsies_tui.look.units import age, moment_text, number, ticking
from horsies_tui.widgets.chips_line import Chip

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from datetime import datetime, tzinfo

    from horsies.views import Snapshot, WorkerRow
    from horsies.views.workers import Loss
    from horsies_tui.look.glyphs import Glyphs

TROUBLE: Final = (
    Liveness.LOST,
    Liveness.DIED,
    Liveness.LATE,
    Liveness.DRAINING,
    Liveness.ALIVE,
    Liveness.STOPPED,
)
"""Worst first."""

_SIGNS: Final = {"snapshot": "its snapshot", "beat": "a heartbeat of a task that it holds", "claim": "a claim"}
_KIBI: Final = 1024


def sign(liveness: Liveness, glyphs: Glyphs) -> str:
    match liveness:
        case Liveness.ALIVE:
            return glyphs.heart
        case Liveness.DRAINING:
            return glyphs.down
        case Liveness.LATE:
            return glyphs.warning
        case Liveness.LOST | Liveness.DIED:
            return glyphs.state("FAILED")
        case Liveness.STOPPED:
            return glyphs.dot


def tone(row: WorkerRow) -> Tone:
    return _tone(row.liveness, matters=bool(row.in_flight) or (row.loss is not None and row.loss.is_open))


def _tone(liveness: Liveness, *, matters: bool) -> Tone:
    """Return the tone of a worker. One that stopped without tasks is not a problem, as after each deployment."""
    match liveness:
        case Liveness.ALIVE:
            return Tone.GOOD
        case Liveness.DRAINING:
            return Tone.INTERRUPTED
        case Liveness.LATE:
            return Tone.WARNING
        case Liveness.LOST | Liveness.DIED:
            return Tone.BAD if matters else Tone.MUTED
        case Liveness.STOPPED:
            return Tone.MUTED


def host(row: WorkerRow) -> str:
    return row.snapshot.hostname if row.snapshot is not None else ""


def megabytes(amount: float | None) -> str:
    """Format megabytes as `412M` or `1.4G`, in five columns; None is empty."""
    if amount is None:
        return ""
    if amount < 1000:
        return f"{amount:.0f}M"
    gibi = amount / _KIBI
    return f"{gibi:.1f}G" if gibi < 10 else f"{gibi:.0f}G"


def seen(row: WorkerRow, now: datetime) -> str:
    """Return the time since the last sign of life, or `now` up to the usual time, so that rows do not tick."""
    silent = row.silent(now)
    return "now" if silent.total_seconds() <= LATE_AFTER_S else ticking(silent)


def note(row: WorkerRow, now: datetime) -> str:
    """Return the problem of the worker; without one, the queues that it serves."""
    held = counted(row.in_flight, "task")
    match row.liveness:
        case Liveness.LOST if row.in_flight:
            return f"holds {held}"
        case Liveness.DIED if row.loss is not None:
            return row.loss.words() + (f"; still holds {held}" if row.in_flight else "")
        case Liveness.LOST | Liveness.STOPPED:
            return "held no task"
        case Liveness.LATE if row.in_flight:
            return f"holds {held}"
        case Liveness.DRAINING if row.in_flight:
            return f"{held} to end first"
        case Liveness.DRAINING:
            return (
                f"no task left, drained{_by(row)}" if row.draining_since is not None else "no task left, it is stopping"
            )
    if row.snapshot is None:
        return "no snapshot of it yet"
    if _snapshots_are_late(row, now) and row.silent(now).total_seconds() <= LATE_AFTER_S:
        return "its snapshots are late, heartbeats of its tasks arrive"
    return " ".join(row.snapshot.queues)


def evidence(row: WorkerRow, now: datetime, zone: tzinfo | None) -> str:
    """Return the evidence of its liveness, by the database's clock."""
    silent, by = row.silent(now), _SIGNS[row.seen_by]
    at = moment_text(row.seen_at, now, zone)
    match row.liveness:
        case Liveness.LOST | Liveness.DIED:
            return f"no sign of life for {ticking(silent)}, lost after {GONE_AFTER_S:.0f}s; the last was {by} at {at}"
        case Liveness.STOPPED:
            return f"its last snapshot, at {at}, said that it was stopping and held no task"
        case Liveness.LATE:
            return (
                f"no sign of life for {ticking(silent)}, late after {LATE_AFTER_S:.0f}s; the last was {by}, "
                f"and after {GONE_AFTER_S:.0f}s it counts as lost"
            )
    if row.seen_by == "snapshot":
        return f"its last snapshot is {ticking(silent)} old; one comes every {SNAPSHOT_EVERY_S:.0f}s"
    snapshot = row.snapshot
    if snapshot is None:
        return f"{by} was seen {ticking(silent)} ago, though snapshots are missing: none came yet"
    since = f"the last is {ticking(now - snapshot.at)} old"
    missing = f"though snapshots are missing: {since}" if _snapshots_are_late(row, now) else f"of its snapshots {since}"
    return f"{by} was seen {ticking(silent)} ago, {missing}"


def _snapshots_are_late(row: WorkerRow, now: datetime) -> bool:
    """Return whether snapshots are missing. A busy worker claims after each one, so the last sign may be a claim."""
    return row.snapshot is not None and (now - row.snapshot.at).total_seconds() > LATE_AFTER_S


def order(row: WorkerRow, now: datetime) -> str:
    """Return the reason why it does not claim; empty if it claims."""
    if row.draining_since is not None:
        why = f': "{row.draining_reason}"' if row.draining_reason else ""
        return f"asked to drain {age(now - row.draining_since)} ago{_by(row)}{why}"
    if row.snapshot is not None and row.snapshot.draining and not row.snapshot.stopped:
        return "it is stopping and claims no more tasks" if row.lives else "it was stopping"
    return ""


def _by(row: WorkerRow) -> str:
    return f" by {row.draining_by}" if row.draining_by else ""


def in_flight(row: WorkerRow) -> str:
    """`7 running, 3 claimed; it has 8 processes`."""
    text = f"{number(row.running)} running, {number(row.claimed)} claimed"
    if row.snapshot is None:
        return text
    if row.snapshot.stopped:
        return text
    processes = row.snapshot.processes
    has = "had" if not row.lives else "has"
    return f"{text}; it {has} {counted(processes, 'process', 'processes')}"


def facts(row: WorkerRow, now: datetime, zone: tzinfo | None, recover_key: str) -> list[Fact]:
    """Return all facts about one worker, the evidence first; for a lost worker also the possible actions."""
    found = [Fact(row.liveness.value, evidence(row, now, zone), tone(row))]
    if text := order(row, now):
        found.append(Fact("drain", text, Tone.INTERRUPTED))
    found.append(Fact("tasks", in_flight(row), Tone.BAD if not row.lives and row.in_flight else None))
    if row.loss is not None:
        found.append(Fact("death", _death(row.loss, zone), Tone.BAD if row.loss.is_open else None))
    if not row.lives and row.in_flight:
        found.append(
            Fact(
                "actions",
                f"recover now: {recover_key}; otherwise a sweep does it once each task is stale",
            )
        )
    found += damage_facts(row)
    snapshot = row.snapshot
    if snapshot is None:
        return [*found, Fact("id", row.id, Tone.MUTED)]
    was = "was " if not row.lives else ""
    children = "" if snapshot.children_memory_mb is None else f", its children {megabytes(snapshot.children_memory_mb)}"
    percent = "" if snapshot.memory_percent is None else f" ({snapshot.memory_percent:.0f} % of the machine)"
    cpu = "" if snapshot.cpu_percent is None else f"cpu {snapshot.cpu_percent:.0f} %, "
    found.append(Fact("resources", f"{was}{cpu}memory {megabytes(snapshot.memory_mb)}{percent}{children}"))
    found.append(Fact("queues", ", ".join(_queues(row)) or "none"))
    found.append(
        Fact(
            "process",
            f"{snapshot.hostname} pid {snapshot.pid}, {snapshot.versions or 'horsies unknown'}, "
            f"since {moment_text(snapshot.started_at, now, zone)} ({age(row.up_until(now) - snapshot.started_at)})",
        )
    )
    claims = f"claims up to {number(snapshot.max_claim_per_worker)}, {number(snapshot.max_claim_batch)} per batch"
    cap = "" if snapshot.cluster_wide_cap is None else f", {number(snapshot.cluster_wide_cap)} in the whole cluster"
    found.append(Fact("capacity", claims + cap))
    if settings := _settings(snapshot):
        found.append(Fact("recovery", settings))
    return [*found, Fact("id", row.id, Tone.MUTED)]


def _death(loss: Loss, zone: tzinfo | None) -> str:
    if loss.acknowledged_at is None:
        return f"{loss.words(zone)}; unacknowledged"
    return f"{loss.words(zone)}; acknowledged by {loss.acknowledged_by}"


def _settings(snapshot: Snapshot) -> str:
    """Return the thresholds of its sweeps, which an alert refers to if they differ between workers."""
    words = {
        "runs are stale after {}": "running_stale_threshold_ms",
        "claims after {}": "claimed_stale_threshold_ms",
        "it sweeps every {}": "check_interval_ms",
    }
    known = ((text, snapshot.recovery_config.get(key)) for text, key in words.items())
    return ", ".join(
        text.format(ticking(timedelta(milliseconds=value))) for text, value in known if isinstance(value, int | float)
    )


def _queues(row: WorkerRow) -> Iterator[str]:
    """Yield the queues in the order of claiming, each with its limit."""
    snapshot = row.snapshot
    if snapshot is None:
        return
    for queue in sorted(snapshot.queues, key=lambda queue: snapshot.queue_priorities.get(queue, 0)):
        cap = snapshot.queue_max_concurrency.get(queue)
        yield f"{queue} (at most {cap})" if cap is not None else queue


def summary(rows: Sequence[WorkerRow], glyphs: Glyphs) -> list[Chip]:
    """Return the numbers of workers by problem, the worst first: `2 lost, holding 13 tasks`, `10 alive`."""
    many = counted(len(rows), "worker")
    chips = [Chip(f"{many} on {counted(len(hosts(rows)), 'host')}", many, Tone.STRONG)]
    for liveness in TROUBLE:
        these = [row for row in rows if row.liveness is liveness]
        if not these:
            continue
        held = sum(row.in_flight for row in these)
        brief = f"{sign(liveness, glyphs)} {number(len(these))} {liveness}"
        verb = "holding" if liveness in (Liveness.LOST, Liveness.LATE) else ""
        text = f"{brief}, {verb} {counted(held, 'task')}" if verb and held else brief
        matters = bool(held) or any(row.loss is not None and row.loss.is_open for row in these)
        short = text if liveness is Liveness.LOST else brief
        chips.append(Chip(text, short, _tone(liveness, matters=matters)))
    return chips


def hosts(rows: Iterable[WorkerRow]) -> frozenset[str]:
    return frozenset(host(row) for row in rows)


def capacity(rows: Iterable[WorkerRow]) -> str:
    """Return the text `71 tasks on 96 processes` about workers that are alive."""
    living = [row for row in rows if row.lives]
    processes = sum(row.snapshot.processes for row in living if row.snapshot is not None)
    running = sum(row.running for row in living)
    return f"{counted(running, 'task')} on {counted(processes, 'process', 'processes')}" if processes else ""


def memory(rows: Iterable[WorkerRow]) -> float:
    """Return the memory of all workers that are alive, in megabytes."""
    snapshot = (row.snapshot for row in rows if row.lives)
    return sum(one.whole_memory_mb or 0.0 for one in snapshot if one is not None)
