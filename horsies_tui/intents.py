"""Operations of the console: what the operator wants changed (`Intent`), its preview, and its result (`Done`)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from rich.cells import cell_len

from horsies.operations import queues, tasks, workers, workflows
from horsies.operations.audit import require_writable
from horsies.operations.queues import QueueVerb
from horsies.operations.selection import Selection
from horsies.operations.tasks import TaskVerb
from horsies.operations.undo import preview as preview_undo, undo
from horsies.operations.workers import WorkerVerb
from horsies.operations.workflows import WorkflowVerb
from horsies_tui.look.text import clean
from horsies_tui.look.tones import Tone

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from uuid import UUID

    from horsies.operations.actor import Actor
    from horsies.operations.preview import Outcome, Preview, Target, TargetKind
    from horsies.operations.reruns import Arguments
    from horsies.operations.workflows import WorkflowSelection
    from horsies.store.connect import Connection
    from horsies_tui.feed.link import Link

UNDO: Final = "undo"

_MOST_KINDS: Final = 4
_MOST_BY_KEY: Final = 20
"""Up to this many rows one key confirms; for more, the operator types the number of rows."""
_MOST_NAMED: Final = 5
"""Rows that the sheet lists by name; a key opens the full list."""


@dataclass(frozen=True, slots=True)
class Words:
    """The forms of a verb in the sheet: `Requeue`, `will be requeued`, `requeued`."""

    title: str
    will: str
    done: str


WORDS: Final[Mapping[str, Words]] = {
    "requeue": Words("Requeue", "will be requeued", "requeued"),
    "fail": Words("Fail", "will be failed", "failed by hand"),
    "cancel": Words("Cancel", "will be cancelled", "cancelled"),
    "retry-now": Words("Retry now", "will be due now", "made due now"),
    "release": Words("Release", "will be released", "released"),
    "rerun": Words("Rerun", "will be sent again", "sent again as new tasks"),
    "expire": Words("Expire", "will be expired", "expired"),
    "recover": Words("Recover", "will be recovered", "recovered"),
    "acknowledge": Words("Acknowledge", "will be acknowledged", "acknowledged"),
    "drain": Words("Drain", "will be told to drain", "told to drain"),
    "resume": Words("Resume", "will go on", "resumed"),
    "reconcile": Words("Reconcile", "will be put right", "put right"),
    "pause": Words("Pause", "will be paused", "paused"),
    "retry": Words("Retry from what failed", "will go on", "sent on again"),
    "skip": Words("Skip", "will be left out", "left out"),
    "complete": Words("Complete by hand", "will be completed", "completed by hand"),
    UNDO: Words("Undo", "will be taken back", "taken back"),
}


_RERUN_FLOWS: Final = Words("Rerun", "will be started again", "started again as new workflows")


@dataclass(frozen=True, slots=True)
class Intent:
    """A verb and its targets. `verb` is the engine's name, or UNDO with the operation that is to be undone."""

    verb: str
    kind: TargetKind = "task"
    selection: Selection = field(default_factory=Selection)
    arguments: Arguments | None = None
    undoes: UUID | None = None
    flows: WorkflowSelection | None = None
    """Set when the targets are workflows or nodes instead of tasks."""
    value: str | None = None
    """The result, as JSON, for a node that the operator completes."""

    @property
    def words(self) -> Words:
        return _RERUN_FLOWS if self.verb == "rerun" and self.flows is not None else WORDS[self.verb]

    @property
    def has_budget(self) -> bool:
        """Whether the policy's retries can be granted again."""
        return self.verb == TaskVerb.REQUEUE


@dataclass(frozen=True, slots=True)
class Done:
    """An operation that has ended: its preview and its outcome."""

    intent: Intent
    preview: Preview
    outcome: Outcome

    @property
    def can_be_undone(self) -> bool:
        return self.intent.verb != UNDO and self.outcome.can_be_undone

    @property
    def skipped(self) -> tuple[tuple[Target, str], ...]:
        """The targets that were not changed, with the reason: refused by the preview, or by the database."""
        tried = {row.target.id for row in self.outcome.rows}
        before = (
            (refusal.target, refusal.reason) for refusal in self.preview.refused if refusal.target.id not in tried
        )
        return (*((row.target, row.detail) for row in self.outcome.refused), *before)

    @property
    def went_well(self) -> bool:
        """Whether every target was changed, so that no list of rows needs to be opened."""
        return not (self.skipped or self.outcome.not_attempted or self.outcome.in_doubt)

    def line(self) -> str:
        """`45 requeued, 4 skipped`; zero counts are left out."""
        outcome = self.outcome
        counts = {
            self.intent.words.done: len(outcome.applied),
            "skipped": len(self.skipped),
            "in doubt": len(outcome.in_doubt),
            "not tried": len(outcome.not_attempted),
        }
        parts = [f"{count:,} {what}" for what, count in counts.items() if count or what == self.intent.words.done]
        return ", ".join(parts) + (f": {outcome.stopped}" if outcome.stopped else "")


class Operation:
    """An intent on a link. `look` and `do` raise a HorsiesError with a sentence if nothing was done."""

    def __init__(self, link: Link, intent: Intent) -> None:
        self.intent = intent
        self._link = link

    async def look(self, *, fresh_budget: bool = False) -> Preview:
        """The preview of the change. Refused immediately if this session cannot write."""

        async def ask(conn: Connection) -> Preview:
            await require_writable(conn)
            return await _preview(conn, self.intent, fresh_budget=fresh_budget)

        return await self._link.act(ask)

    async def do(self, preview: Preview, reason: str | None, on_progress: Callable[[int, int], None]) -> Done:
        """Apply the change. When cancelled, it finishes the current batch and returns what was done."""

        async def change(conn: Connection) -> Outcome:
            return await _apply(conn, self.intent, preview, self._link.actor, reason, on_progress)

        return Done(self.intent, preview, await self._link.act(change))


async def _preview(conn: Connection, intent: Intent, *, fresh_budget: bool) -> Preview:
    if intent.undoes is not None:
        return await preview_undo(conn, intent.undoes)
    if intent.flows is not None:
        return await workflows.preview(conn, WorkflowVerb(intent.verb), intent.flows, value=intent.value)
    match intent.kind:
        case "worker":
            return await workers.preview(conn, WorkerVerb(intent.verb), intent.selection.ids)
        case "queue":
            return await queues.preview(conn, QueueVerb(intent.verb), intent.selection.ids)
        case _:
            verb = TaskVerb(intent.verb)
            return await tasks.preview(
                conn, verb, intent.selection, fresh_budget=fresh_budget, arguments=intent.arguments
            )


async def _apply(
    conn: Connection,
    intent: Intent,
    preview: Preview,
    actor: Actor,
    reason: str | None,
    on_progress: Callable[[int, int], None],
) -> Outcome:
    if intent.undoes is not None:
        return await undo(conn, intent.undoes, actor, reason, on_progress=on_progress)
    if intent.flows is not None:
        return await workflows.apply(conn, preview, actor, reason, on_progress=on_progress)
    match intent.kind:
        case "worker":
            return await workers.apply(conn, preview, actor, reason, on_progress=on_progress)
        case "queue":
            return await queues.apply(conn, preview, actor, reason)
        case _:
            return await tasks.apply(conn, preview, actor, reason, on_progress=on_progress)


def things(count: int, kind: str) -> str:
    """1 task, 1,204 tasks."""
    return f"{count:,} {kind}" if count == 1 else f"{count:,} {kind}s"


def summed(texts: Iterable[str], between: str = " ") -> str:
    """`37 failed RATE_LIMITED · 8 failed TIMEOUT`: the most frequent kinds first, then the number of the others."""
    kinds = Counter(texts)
    shown = kinds.most_common(_MOST_KINDS)
    parts = [f"{count:,}{between}{text}" for text, count in shown]
    left = kinds.total() - sum(count for _, count in shown)
    if left:
        parts.append("and 1 other" if left == 1 else f"and {left:,} others")
    return " · ".join(parts)


def states_of(targets: Iterable[Target]) -> str:
    """The targets' current states: tasks by status and error code, others by name."""
    return summed(
        target.state if target.kind == "task" else f"{target.kind} {target.label}, {target.state}" for target in targets
    )


@dataclass(frozen=True, slots=True)
class Fact:
    """One line of the preview sheet."""

    label: str
    text: str
    tone: Tone | None = None


def facts_of(intent: Intent, preview: Preview) -> list[Fact]:
    """The lines of the preview: what will change, what is refused and why, the effects, and the CLI command."""
    eligible, refused = preview.eligible, preview.refused
    lines = [Fact(f"{len(eligible):,} {intent.words.will}", states_of(eligible), Tone.STRONG)]
    lines += named(eligible)
    if refused:
        kinds = {refusal.reason for refusal in refused}
        reasons = kinds.pop() if len(kinds) == 1 else summed((refusal.reason for refusal in refused), between=": ")
        lines.append(Fact(f"{len(refused):,} will be refused", reasons, Tone.WARNING))
    if eligible:
        lines += [Fact("" if place else "effect", text) for place, text in enumerate(preview.consequences)]
    if preview.filter is not None:
        everything = preview.filter or "everything, it is empty"
        lines.append(Fact("filter", f"{everything}   (these {len(eligible) + len(refused):,}, and none sent later)"))
    lines.append(Fact("same from the CLI", preview.command, Tone.MUTED))
    return lines


def named(targets: Sequence[Target]) -> list[Fact]:
    """The first targets, each with name, id, queue and state, and the number of those not listed."""
    rows = [
        (clean(row.id), f"queue {clean(row.queue)}" if row.queue else "", clean(row.state))
        for row in targets[:_MOST_NAMED]
    ]
    widths = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(text + " " * (width - cell_len(text)) for text, width in zip(row, widths, strict=True) if width)
        for row in rows
    ]
    # The label of a worker or a queue is its id, so it is not repeated.
    names = ["" if target.label == target.id else f"  {target.label}" for target in targets]
    left = len(targets) - len(rows)
    more = [Fact("", f"and {left:,} more")] if left else []
    return [*(Fact(name, line.rstrip()) for name, line in zip(names, lines, strict=False)), *more]


def word_to_type(eligible: int, production: str | None) -> str | None:
    """The text that must be typed before this many rows are changed; `production` is the name of a production context.

    None: the key alone confirms.
    """
    if production is not None:
        return production
    return str(eligible) if eligible > _MOST_BY_KEY else None
