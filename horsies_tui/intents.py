"""Operations of the console: what the operator wants changed (`Intent`), its preview, and its result."""

from __future__ import annotations

import asyncio
import json
import shlex
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from rich.cells import cell_len

from horsies.config.contexts import advise
from horsies.domain.plain_text import clean
from horsies.domain.quantities import counted
from horsies.operations.selection import Selection
from horsies.store.pool import CONNECTION_ERRORS
from horsies_tui.look.damage import damaged_words
from horsies_tui.look.tones import Tone

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from horsies.display.payload import Masks
    from horsies.domain.states import TargetKind
    from horsies.operations.edited import TypedValues
    from horsies.operations.target import Target
    from horsies.operations.undo import Hold
    from horsies.operations.verb import OperationOutcome, Preview, Verb
    from horsies.store.connect import Connection
    from horsies_tui.feed.link import DatabaseLink

_MOST_KINDS: Final = 4
_MOST_BY_KEY: Final = 20
"""Up to this many rows one key confirms; for more, the operator types the number of rows."""
_MOST_NAMED: Final = 5
"""Rows that the sheet lists by name; a key opens the full list."""


@dataclass(frozen=True, slots=True)
class Intent:
    """A verb, its targets, and the options that a sheet has asked for."""

    verb: Verb
    selection: Selection = field(default_factory=Selection)
    options: Mapping[str, Any] = field(default_factory=dict)
    undoes: TargetKind | None = None
    """Of an undo: what the operation had changed."""
    reason: str = ""
    """What stands in the sheet's field before anything is typed."""

    @property
    def kind(self) -> TargetKind:
        return self.undoes or self.verb.kind

    def asks_for(self, *options: str) -> bool:
        """Return whether the verb has these options."""
        return {*options} <= {option.name for option in self.verb.options}


@dataclass(frozen=True, slots=True)
class FinishedOperation:
    """An operation that has ended: its preview and its outcome."""

    intent: Intent
    preview: Preview
    outcome: OperationOutcome

    @property
    def can_be_undone(self) -> bool:
        return self.outcome.can_be_undone

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
        """True if every target was changed, so that no list of rows needs to be opened."""
        return not (self.skipped or self.outcome.not_attempted or self.outcome.in_doubt)

    def line(self) -> str:
        """`45 requeued, 4 skipped`; zero counts are left out."""
        outcome = self.outcome
        others = {
            "skipped": len(self.skipped),
            "in doubt": len(outcome.in_doubt),
            "not tried": len(outcome.not_attempted),
        }
        parts = [f"{len(outcome.applied):,} {self.intent.verb.done}"]
        parts += [f"{count:,} {what}" for what, count in others.items() if count]
        return ", ".join(parts) + (f": {outcome.stopped}" if outcome.stopped else "")


class ConsoleOperation:
    """An intent on a link. `look` and `do` raise a HorsiesError with a sentence if nothing was done."""

    def __init__(self, link: DatabaseLink, intent: Intent, types: Callable[[], TypedValues] | None = None) -> None:
        self.intent = intent
        self._link = link
        self._types = types if intent.verb.typed and intent.options else None
        self._hold: Hold | None = None
        self._looking: asyncio.Future[Preview] | None = None
        self._closed = False

    async def look(self, *, fresh_budget: bool = False) -> Preview:
        """The preview of the change; of an undo, with the tasks held that it would restore.

        Refused immediately if this session cannot write.
        """

        from horsies.operations.audit_rows import require_writable
        from horsies.operations.pipeline import preview
        from horsies.operations.undo import Hold
        from horsies.operations.verb import TYPES

        options = {**self.intent.options, **({"fresh_budget": True} if fresh_budget else {})}
        if self._types is not None:
            # The modules of an application take their time when they are imported for the first time.
            options[TYPES] = await asyncio.to_thread(self._types)

        async def ask(conn: Connection) -> Preview:
            await require_writable(conn)
            if self.intent.verb.kind == "operation" and self._hold is None and not self._closed:
                self._hold = Hold(self.intent.selection.ids[0])
            held = 0 if self._hold is None else await self._hold.renew(conn)
            return replace(await preview(conn, self.intent.verb, self.intent.selection, **options), held=held)

        # If the sheet is closed meanwhile, this goes on to its end: `release` must know what is held.
        self._looking = asyncio.ensure_future(self._link.act(ask))
        seen = await asyncio.shield(self._looking)
        return replace(seen, command=advise(seen.command, self._link.database_options))

    async def do(self, seen: Preview, reason: str | None, on_progress: Callable[[int, int], None]) -> FinishedOperation:
        """Apply the change. When cancelled, it finishes the current batch and returns what was done."""

        from horsies.operations.pipeline import apply

        async def change(conn: Connection) -> OperationOutcome:
            if self._hold is not None:
                await self._hold.renew(conn)
            return await apply(conn, seen, self._link.actor, reason, on_progress=on_progress)

        return FinishedOperation(self.intent, seen, await self._link.act(change))

    async def release(self) -> None:
        """Release the held rows that were not restored to the workers. A hold that is not released expires."""
        self._closed = True
        with suppress(*CONNECTION_ERRORS):
            if self._looking is not None:
                await self._looking
        hold, self._hold = self._hold, None  # a sheet that is being removed may look once more, and holds nothing
        with suppress(*CONNECTION_ERRORS):
            if hold is not None:
                await self._link.act(hold.release)


def summed(texts: Iterable[str], between: str = " ") -> str:
    """`37 failed RATE_LIMITED · 8 failed TIMEOUT`: the most frequent kinds first, then the number of the others."""
    kinds = Counter(texts)
    shown = kinds.most_common(_MOST_KINDS)
    parts = [f"{count:,}{between}{text}" for text, count in shown]
    left = kinds.total() - sum(count for _, count in shown)
    if left:
        parts.append(f"and {counted(left, 'other')}")
    return " · ".join(parts)


def states_of(targets: Sequence[Target]) -> list[str]:
    """Lines with the targets by name and by state: tasks by status and error code, others by name alone."""
    if not targets or any(target.kind != "task" for target in targets):
        return [summed(f"{target.kind} {target.label}, {target.state}" for target in targets)]
    by_status: dict[str, list[str]] = {}
    for target in targets:
        status, _, code = target.state.partition(" ")
        by_status.setdefault(status, []).append(code)
    most_first = sorted(by_status.items(), key=lambda item: -len(item[1]))
    states = [
        f"{status}: {summed(code or 'without a code' for code in codes)}" if any(codes) else f"{len(codes):,} {status}"
        for status, codes in most_first
    ]
    return [summed(target.label for target in targets), "   ".join(states)]


@dataclass(frozen=True, slots=True)
class Fact:
    """One line of the preview sheet."""

    label: str
    text: str
    tone: Tone | None = None


def damage_facts(record: object) -> list[Fact]:
    """Return a line with the damaged fields of a row and their stored values, or nothing."""
    found = damaged_words(record)
    stored = ", ".join(f"{name} {value}" for name, value in found.items())
    return [Fact("damaged", stored, Tone.BAD)] if found else []


def facts_of(intent: Intent, preview: Preview, masks: Masks | None = None) -> list[Fact]:
    """The lines of the preview: what will change, what is refused and why, the effects, and the CLI command."""
    from horsies.display.payload import Masks, change_texts

    masks = masks or Masks()
    eligible, refused = preview.eligible, preview.refused
    lines = [
        Fact("" if place else f"{len(eligible):,} {intent.verb.will}", text, Tone.STRONG)
        for place, text in enumerate(states_of(eligible))
    ]
    lines += named(eligible)
    lines += [Fact(f"  {name}", text, Tone.STRONG) for name, text in change_texts(preview.changes, masks)]
    if refused:
        kinds = {refusal.reason for refusal in refused}
        reasons = kinds.pop() if len(kinds) == 1 else summed((refusal.reason for refusal in refused), between=": ")
        lines.append(Fact(f"{len(refused):,} will be refused", reasons, Tone.WARNING))
    if eligible:
        lines += [Fact("" if place else "effect", text) for place, text in enumerate(preview.consequences)]
    if preview.filter is not None:
        everything = preview.filter or "empty, so everything"
        lines.append(Fact("filter", f"{everything}   (these {len(eligible) + len(refused):,}, and none sent later)"))
    lines.append(Fact("command", _command(preview, masks), Tone.MUTED))
    return lines


def _command(preview: Preview, masks: Masks) -> str:
    """The command with edited arguments masked; the key that copies it copies the whole one."""
    from horsies.display.payload import HIDDEN

    shown = preview.command
    for name in ("args", "kwargs"):
        if isinstance(edited := preview.options.get(name), str):
            hidden = HIDDEN if masks.hides(name) else json.dumps(masks.on(json.loads(edited)), ensure_ascii=False)
            if hidden == HIDDEN or json.loads(hidden) != json.loads(edited):
                shown = shown.replace(shlex.quote(edited), shlex.quote(hidden))
    return shown


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
