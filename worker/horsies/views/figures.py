"""The definition of each figure in the console and in the CLI.

waiting   due and not begun: PENDING with enqueued_at passed, or CLAIMED; paused queues included (`waiting`)
due       PENDING with enqueued_at passed (`QueueRow.due`, the filter `status:pending,retry has:due`)
later     PENDING with enqueued_at to come: a delay, a backoff (`QueueRow.later`, `status:pending,retry -has:due`)
claimed   CLAIMED: a worker has it and has not begun (`QueueRow.claimed`)
running   RUNNING (`QueueRow.running`)
cap       running, and the limit of the queue; never exceeded, however many are claimed ahead (`QueueRow.cap`)
oldest    the earliest enqueued_at of the waiting tasks (`QueueRow.oldest_due_at`)
busy      the share of live workers' processes that run a task, by the rows that the workers own (`busy_share`)
in, out   tasks that became due (sent, retried, requeued), and that ended or failed an attempt that is retried, per
          second in the last RATES_OVER; beside it in the last MINUTE, by which the trend is judged
          (`views.flow.queue_rates`)
usual     median and 95th percentile of the runs of a name: its newest 500 ended tasks of the last day
          (`views.usual.usual_durations`)
by name   of the tasks that ended within a window: ended, failed and their share, retries, waits, runs, and the part of
          what all names ran together (`views.statistics.task_statistics`)
ended     completed, failed, and cancelled or expired in the last 5 minutes (`ClusterStatus`)

A count that stopped at its bound has `Count.at_least` set; it is never shown as an exact number.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from horsies.views.counts import Count

if TYPE_CHECKING:
    from collections.abc import Iterable

    from horsies.views.queues import QueueRow
    from horsies.views.workers import WorkerRow


def total(counts: Iterable[Count]) -> Count:
    counts = tuple(counts)
    return Count(sum(count.number for count in counts), any(count.at_least for count in counts))


def waiting(queues: Iterable[QueueRow]) -> Count:
    """Due and not begun."""
    return total(Count(row.due.number + row.claimed, row.due.at_least) for row in queues)


def busy_share(workers: Iterable[WorkerRow]) -> float | None:
    """Return the share of busy processes; None if no live worker reports its processes."""
    living = [row for row in workers if row.lives]
    places = sum(row.snapshot.processes for row in living if row.snapshot is not None)
    return sum(row.busy or 0 for row in living) / places if places else None
