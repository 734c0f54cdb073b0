"""`horsies tasks show`: everything that is stored about one task."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final

from horsies.cli.reading import ReadSession, read, require_found
from horsies.config.contexts import DatabaseChoice
from horsies.display.formatting import (
    actions,
    ago,
    damage_lines,
    headline,
    lasting,
    links,
    state,
    times,
    titled,
    usual_words,
)
from horsies.display.json_output import detail_report, print_json
from horsies.display.payload import ALL, POSITIONAL, SHOWN, Masks, stored_lines
from horsies.display.terminal import Screen, TableCell, TableColumn, say, table
from horsies.domain.plain_text import clean
from horsies.findings.why import Why, why_pending
from horsies.operations.named_targets import ambiguous_task
from horsies.views import Ambiguous, Attempt, Progress, TaskDetail, task_detail
from horsies.views.workers import place_of

_BEATS: Final = 40
_AT_ONCE: Final = timedelta(seconds=1)

_ATTEMPTS: Final = (
    TableColumn("#", right=True),
    TableColumn("WAITED", right=True),
    TableColumn("RAN", right=True),
    TableColumn("OUTCOME"),
    TableColumn("PROGRESS", least=8, rank=3),
    TableColumn("ERROR", least=10, rank=1),
    TableColumn("WHERE", least=10, rank=2),
    TableColumn("ENDED", right=True),
)


def show_task(choice: DatabaseChoice, text: str, names: list[str], *, as_json: bool) -> None:
    masks = Masks.of(names)

    async def work(session: ReadSession) -> tuple[TaskDetail | None, Why | None]:
        found = await task_detail(session.connection, text, most_characters=ALL if as_json else SHOWN)
        if isinstance(found, Ambiguous):
            raise ambiguous_task(found)
        waits = found is not None and found.row.status in ("PENDING", "CLAIMED")
        return found, await why_pending(session.connection, found.row.id) if found and waits else None

    found, why = read(choice, "tasks show", work)
    detail = require_found(found, "task", text)
    if as_json:
        print_json(detail_report(detail, why, masks), is_stored=True)
    else:
        say(*_story(detail, why, masks, Screen.of(sys.stdout)))


def _story(detail: TaskDetail, why: Why | None, masks: Masks, screen: Screen) -> Iterator[str]:
    yield from _head(detail, screen)
    yield from damage_lines([detail.row, *detail.attempts, *detail.audit], screen)
    yield from titled("times", _times(detail), screen)
    yield from titled("progress", _progress(detail), screen)
    yield from titled("why it waits", [] if why is None else [clean(reason.text) for reason in why.reasons], screen)
    yield from titled("attempts", _attempts(detail, screen), screen)
    for attempt in detail.attempts:
        lines = [clean(line) for line in (attempt.output or "").splitlines()]
        yield from titled(f"last output of try {attempt.attempt}", lines, screen)
    yield from titled("heartbeats", _beats(detail, screen), screen)
    hidden = masks.hides(POSITIONAL)
    yield from titled("args", stored_lines(detail.args, masks, hide=hidden), screen)
    yield from titled("kwargs", stored_lines(detail.kwargs, masks), screen)
    yield from titled("result", stored_lines(detail.result, masks), screen)
    yield from titled("options", stored_lines(detail.options, masks), screen)
    yield from titled("operator actions", actions(detail.audit, detail.now), screen)
    yield from titled("links", _links(detail), screen)


def _head(detail: TaskDetail, screen: Screen) -> Iterator[str]:
    row = detail.row
    yield headline(row.state, row.error_code, row.name, row.id, screen)
    tries = f"try {row.attempt} of {row.attempts_allowed}"
    place = place_of(row.worker_id, row.worker_hostname, row.worker_pid)
    where = f"   on {clean(place)}" if place else ""
    yield f"queue {clean(row.queue)}   priority {row.priority}   {tries}{where}"


def _times(detail: TaskDetail) -> list[str]:
    row = detail.row
    sent_at = row.sent_at or row.created_at
    return times(
        {
            "sent": sent_at,
            "due": row.due_at if row.due_at - sent_at > _AT_ONCE else None,
            "claimed": row.claimed_at,
            "lease ends": row.claim_expires_at,
            "started": row.started_at,
            "code ended": row.finalizing_at,
            "ended": row.finished_at,
            "deadline": row.good_until,
        },
        detail.now,
    )


def _progress(detail: TaskDetail) -> list[str]:
    """Return the progress that it reports, and how long its name usually runs."""
    row, now = detail.row, detail.now
    said = [str(row.progress.words(now, lasting))] if row.progress else []
    run = row.run(now)
    if detail.usual is not None and run is not None:
        said.append(f"{lasting(run)} of usually {usual_words(detail.usual)}")
    return said


def _came_to(progress: Progress | None) -> str:
    return "" if progress is None else " ".join(filter(None, (progress.percent, progress.amount)))


def _attempts(detail: TaskDetail, screen: Screen) -> list[str]:
    row, now = detail.row, detail.now
    cells: list[list[TableCell | str]] = []
    before = row.sent_at or row.created_at
    for attempt in detail.attempts:
        cells.append(_attempt(attempt, before, now, screen))
        before = attempt.finished_at
    if row.status in ("CLAIMED", "RUNNING"):
        waited, ran = lasting((row.started_at or now) - before), lasting(row.run(now))
        where = place_of(row.worker_id, row.worker_hostname, row.worker_pid)
        cells.append([str(row.attempt), waited, ran, state(row.state, screen), _came_to(row.progress), "", where, ""])
    left_out = [f"{detail.earlier_attempts} earlier ones are left out"] if detail.earlier_attempts else []
    reasons = [
        f"{attempt.attempt}: {clean(attempt.error_message)}" for attempt in detail.attempts if attempt.error_message
    ]
    return [*left_out, *table(_ATTEMPTS, cells, screen), *reasons] if cells else []


def _attempt(attempt: Attempt, before: datetime, now: datetime, screen: Screen) -> list[TableCell | str]:
    good = attempt.outcome == "COMPLETED"
    mark = state(attempt.state, screen).text.split()[0]
    again = ", tried again" if attempt.will_retry else ""
    where = place_of(attempt.worker_id, attempt.worker_hostname, attempt.worker_pid)
    where += f", version {attempt.app_version}" if attempt.app_version else ""
    return [
        str(attempt.attempt),
        lasting(attempt.started_at - before),
        lasting(attempt.finished_at - attempt.started_at),
        TableCell(f"{mark} {attempt.outcome_words}{again}", "green" if good else "red"),
        _came_to(attempt.progress),
        attempt.error_code or "",
        where,
        f"{ago(attempt.finished_at, now)} ago",
    ]


def _beats(detail: TaskDetail, screen: Screen) -> list[str]:
    """Return the beats of the newest execution: how many, how far apart, and the age of the last one."""
    if not detail.executions:
        return []
    newest = detail.executions[-1]
    lines = []
    for role, beats in (("runner", newest.runner), ("claimer", newest.claimer)):
        if beats:
            marks = screen.glyph("♥", "*") * min(len(beats), _BEATS)
            apart = lasting((beats[-1] - beats[0]) / (len(beats) - 1)) if len(beats) > 1 else ""
            every = f", every {apart}" if apart else ""
            more = "+" if newest.cut else ""
            lines.append(f"{role:<8}{marks} {len(beats)}{more}{every}, the last {ago(beats[-1], detail.now)} ago")
    who = [f"sent by {clean(newest.runner_sender)}"] if newest.runner_sender else []
    return [f"attempt {newest.attempt}", *lines, *who] if lines else []


def _links(detail: TaskDetail) -> list[str]:
    row, node = detail.row, detail.node
    return links(
        {
            "worker": row.worker_id,
            "unique key": row.unique_key,
            "swallowed": row.duplicates
            and f"{row.duplicates.words}, the last {ago(row.duplicates.last_at, detail.now)} ago",
            "rerun of": row.rerun_of,
            "rerun as": ", ".join(detail.reruns),
            "workflow": node and f"{node.workflow_name} {node.workflow_status} {node.workflow_id}",
            "its node": node and f"{node.node_id or node.task_index} {node.node_status}",
        }
    )
