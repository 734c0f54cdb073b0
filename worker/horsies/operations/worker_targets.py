"""Workers as targets of verbs: their last sign of life, their tasks and their orders."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from horsies.config.recovery import RecoveryConfig
from horsies.findings.cluster import ALIVE_WITHIN_S
from horsies.findings.searches.crashed import unacknowledged
from horsies.operations.audit_rows import apply_order, preview_time
from horsies.operations.facts import WorkerFacts
from horsies.operations.target import Target
from horsies.operations.verb import Preview, Refusal
from horsies.store.statements import statement
from horsies.views.reader_session import decoded, tables
from horsies.views.workers import name_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import asyncpg

    from horsies.operations.audit_rows import OperatorAction
    from horsies.operations.selection import Selection
    from horsies.operations.target import RowOutcome
    from horsies.operations.verb import Options, WorkerVerb

SILENCE_MS = round(ALIVE_WITHIN_S * 1000)
_SNAPSHOT_MS = 5_000
_FINALIZING_MS = RecoveryConfig().finalizing_stale_threshold_ms
WRITES: tuple[str, ...] = ("horsies_worker_orders",)


async def preview_of(conn: asyncpg.Connection, verb: WorkerVerb, selection: Selection, options: Options) -> Preview:
    """Select workers by whole ids, or by beginnings or ends of ids that match exactly one worker."""
    taken_at = await preview_time(conn)
    reads_losses = verb.reads_losses and (await tables(conn)).worker_losses
    ids, unknown = await _resolve(conn, dict.fromkeys(selection.ids), lost=reads_losses)
    workers = await read_workers(conn, ids)
    if reads_losses:
        losses = await unacknowledged(conn, ids, options.get("task"))
        workers = [replace(one, unacknowledged=losses.get(one.worker_id)) for one in workers]
    eligible = [one for one in workers if verb.fits(one.state)]
    refused = [Refusal(_target(one), verb.wrong_state(one)) for one in workers if not verb.fits(one.state)]
    return Preview(
        verb=verb,
        options=options,
        eligible=tuple(map(_target, eligible)),
        refused=(*refused, *unknown),
        consequences=tuple(await verb.effects(conn, eligible)) if eligible else (),
        command=verb.command([*ids, *(refusal.target.id for refusal in unknown)], options),
        taken_at=taken_at,
    )


async def change(
    conn: asyncpg.Connection, action: OperatorAction, verb: WorkerVerb, part: Sequence[Target]
) -> list[RowOutcome]:
    if verb.order is not None:
        values: tuple[Any, ...] = ()
        if verb.reads_losses:
            # The tasks that the preview counted, which are all that is acknowledged, and their only name.
            counted = [task_id for target in part for task_id in target.seen.unacknowledged.task_ids]
            values = counted, action.options.get("task")
        return await apply_order(conn, action, statement(*verb.order), part, states, *values, guarded=verb.guarded)
    return [await verb.change(conn, action, target) for target in part] if verb.change is not None else []


async def read_workers(conn: asyncpg.Connection, ids: Sequence[str]) -> list[WorkerFacts]:
    given = ids, _FINALIZING_MS, SILENCE_MS, _SNAPSHOT_MS
    return [WorkerFacts(*map(decoded, row)) for row in await conn.fetch(statement(__name__, "order_workers"), *given)]


async def states(conn: asyncpg.Connection, ids: Sequence[str]) -> dict[str, str]:
    return {worker.worker_id: f"it is {worker.words}" for worker in await read_workers(conn, ids)}


async def _resolve(conn: asyncpg.Connection, given: Iterable[str], *, lost: bool) -> tuple[list[str], list[Refusal]]:
    """Return the matching ids, each once, and the texts that match none or several."""
    read = ("order_known", "order_known_dead") if lost else ("order_known",)
    known = sorted({row[0] for name in read for row in await conn.fetch(statement(__name__, name))})
    ids: dict[str, None] = {}
    refused = []
    for text in given:
        fitting = [text] if text in known else [one for one in known if _fits(one, text)]
        if len(fitting) == 1:
            ids[fitting[0]] = None
        else:
            shown = ", ".join(fitting[:5]) + (", …" if len(fitting) > 5 else "")
            why = f"{len(fitting)} workers match: {shown}" if fitting else "no worker has that id"
            refused.append(Refusal(Target("worker", text, text, "unknown"), why))
    return list(ids), refused


def _fits(worker_id: str, text: str) -> bool:
    """Return whether the text is its `host:pid`, as in lists, or the beginning or end of its id."""
    return name_of(worker_id) == text or worker_id.startswith(text) or worker_id.endswith(text)


def _target(worker: WorkerFacts) -> Target:
    return Target("worker", worker.worker_id, name_of(worker.worker_id), worker.words, worker)
