"""The columns of the task list."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Final

from horsies.domain.quantities import counted
from horsies.domain.states import USUAL_CLAIM, USUAL_RUN, BeatPolicy
from horsies.views.workers import place_of
from horsies_tui.look.bars import share_bar, steady_words
from horsies_tui.look.cells import EMPTY, ID_WIDTH, SHORT_ID, Cell, Column, ColumnSet, Look
from horsies_tui.look.tones import Tone, state_tone
from horsies_tui.look.units import age, length, ticking

if TYPE_CHECKING:
    from horsies.views import Progress, TaskRow
    from horsies.views.tasks import Duplicates

_BAR: Final = 8
_LATE_BEATS: Final = 2
"""Number of missing heartbeats that is a problem: one may still be on its way."""


def _state(row: TaskRow, look: Look) -> Cell:
    left = ""
    if row.state == "RETRY" and row.next_retry_at is not None and row.next_retry_at > look.now:
        left = ticking(row.next_retry_at - look.now)
    return Cell(look.glyphs.state_text(row.state, left), state_tone(row.state), look.glyphs.state(row.state))


def _id(row: TaskRow, _look: Look) -> Cell:
    return Cell(row.id, Tone.MUTED)


def _name(row: TaskRow, look: Look) -> Cell:
    return Cell(row.name)


def _queue(row: TaskRow, look: Look) -> Cell:
    return Cell(row.queue)


def _priority(row: TaskRow, look: Look) -> Cell:
    return Cell(str(row.priority), Tone.MUTED)


def _age(row: TaskRow, look: Look) -> Cell:
    return Cell(age(row.age(look.now)))


def _wait(row: TaskRow, look: Look) -> Cell:
    wait = row.wait(look.now)
    return Cell(length(wait)) if row.started_at else Cell(ticking(wait))


def _run(row: TaskRow, look: Look) -> Cell:
    run = row.run(look.now)
    return Cell(length(run)) if row.finished_at else Cell(ticking(run))


def _try(row: TaskRow, look: Look) -> Cell:
    return Cell(f"{row.attempt}/{row.attempts_allowed}", Tone.WARNING if row.retry_count else None)


def _worker(row: TaskRow, look: Look) -> Cell:
    return Cell(place_of(row.worker_id, row.worker_hostname, None if row.worker_id else row.worker_pid), Tone.MUTED)


def _beat(row: TaskRow, look: Look) -> Cell:
    silence = _silence(row, look)
    if silence is None:
        return EMPTY
    return Cell(ticking(silence), _silence_tone(row, silence, look))


def _error(row: TaskRow, look: Look) -> Cell:
    """Return the error code or `no heartbeat`; for a running task, its progress or usual duration; otherwise the
    number of duplicate sends that were merged into it."""
    silence = _silence(row, look)
    if silence is not None and _silence_tone(row, silence, look) is Tone.BAD:
        return Cell("no heartbeat", Tone.BAD)
    if row.progress is not None:
        return _progress(row.progress, look)
    if row.error_code is None:
        told = _usual(row, look)
        return told if told.text or row.duplicates is None else _duplicates(row.duplicates)
    return Cell(row.error_code, Tone.FAILED if row.status == "FAILED" else Tone.MUTED)


def _usual(row: TaskRow, look: Look) -> Cell:
    """Return the usual duration, once the task has been running for longer than most."""
    run, usual = row.run(look.now), look.usual.get(row.name)
    if row.status != "RUNNING" or run is None or usual is None or run.total_seconds() < usual.p50_s:
        return EMPTY
    late = run.total_seconds() > usual.p95_s
    return Cell(f"usually {length(timedelta(seconds=usual.p50_s))}", Tone.WARNING if late else Tone.MUTED, brief="")


def _duplicates(duplicates: Duplicates) -> Cell:
    return Cell(counted(duplicates.sends, "duplicate"), Tone.MUTED, f"{duplicates.sends:,} dup")


def _progress(progress: Progress, look: Look) -> Cell:
    words = steady_words(progress, look.now)
    tone = Tone.MUTED if progress.is_stale(look.now) else Tone.RUNNING
    if progress.share is None:
        return Cell(" ".join(filter(None, (words.amount, words.left))), tone, words.amount)
    told = f"{words.percent} {words.left}".strip()
    return Cell(f"{share_bar(progress.share, _BAR, look.glyphs)} {told}", tone, words.percent)


def _message(row: TaskRow, look: Look) -> Cell:
    """Return the error message; for a running task, the amount done and its rate."""
    if row.progress is not None:
        words = steady_words(row.progress, look.now)
        amount = "" if row.progress.share is None else words.amount  # otherwise the previous column shows it
        return Cell(f"{amount} {words.rate}".strip(), Tone.MUTED)
    if not row.error_message:
        return EMPTY
    return Cell(row.error_message.strip(), None if row.status == "FAILED" else Tone.MUTED)


def _silence(row: TaskRow, look: Look) -> timedelta | None:
    """Return the time since the last heartbeat, or since the first was due; None if none are expected."""
    since = row.beat_at
    match row.status:
        case "RUNNING":
            since = since or row.started_at
        case "CLAIMED":
            since = since or row.claimed_at
        case _:
            return None
    return None if since is None else look.now - since


def _silence_tone(row: TaskRow, silence: timedelta, look: Look) -> Tone:
    recovery, runs = look.recovery, row.status == "RUNNING"
    if recovery is None:
        beats = USUAL_RUN if runs else USUAL_CLAIM
    elif runs:
        beats = BeatPolicy(recovery.runner_heartbeat_interval_ms, recovery.running_stale_threshold_ms)
    else:
        beats = BeatPolicy(recovery.claimer_heartbeat_interval_ms, recovery.claimed_stale_threshold_ms)
    silence_ms = silence.total_seconds() * 1000
    if silence_ms > beats.stale_ms:
        return Tone.BAD
    return Tone.WARNING if silence_ms > _LATE_BEATS * beats.every_ms else Tone.MUTED


TASK_COLUMNS: Final[ColumnSet[TaskRow]] = ColumnSet(
    (
        Column("state", "STATE", _state, 3, 13, brief="ST"),
        Column("id", "ID", _id, SHORT_ID, whole=ID_WIDTH, keep_end=True),
        Column("name", "NAME", _name, 12, 18, grow=3),
        Column("queue", "QUEUE", _queue, 5, 8, grow=1),
        Column("priority", "PRI", _priority, 4, priority=2, right=True),
        Column("age", "AGE", _age, 4, right=True),
        Column("wait", "WAIT", _wait, 5, priority=1, right=True),
        Column("run", "RUN", _run, 5, right=True),
        Column("try", "TRY", _try, 4, right=True),
        Column("worker", "WORKER", _worker, 10, 13, grow=2, priority=3),
        Column("beat", "♥", _beat, 5, right=True),
        Column("error", "ERROR", _error, 5, 12, grow=3),
        Column("message", "MESSAGE", _message, 20, 44, grow=4, priority=4),
    ),
    recedes=lambda row: row.state in ("COMPLETED", "CANCELLED"),
    kind="task",
)
"""The columns of the list. A state is a sign if it has only three columns, otherwise sign and word."""
