"""The sentences of the activity screen: the story of an entry, its command, the summary, the empty list."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Final, cast

from horsies.domain.quantities import counted
from horsies.operations.target import AuditedAction
from horsies.operations.verbs import VERBS, audited_verb
from horsies.query import TaskFilter, Term
from horsies.query.values import Choice, Glob
from horsies_tui.activity.entries import outcome_of, target_of
from horsies_tui.intents import Fact, damage_facts
from horsies_tui.look.tones import Tone
from horsies_tui.look.units import length, moment_text, number

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime, tzinfo

    from horsies.domain.states import TargetKind
    from horsies.operations.verb import Verb
    from horsies.views import AuditRow, Change, OperationRow
    from horsies_tui.activity.feed import ActivitySnapshot, OneOperation

_MOST_IN_COMMAND: Final = 20
"""Targets that the copied command names."""

NOTHING_YET: Final = (
    "No operator has acted here yet, and nothing failed in the last day.\n"
    "This list shows what operators do, with reason and outcome, and which\n"
    "tasks, workflows and workers fail, start, stop or are recovered."
)


def verb_of(operation: OperationRow) -> Verb | None:
    """Return the verb that was applied; None if several were, or if this version does not know it."""
    done = (*operation.kinds, *operation.verbs)
    return next((verb for key, verb in VERBS.items() if key == done), None)


def can_be_undone(operation: OperationRow) -> bool:
    """Return whether an undo may be tried, judged by the verbs alone; its preview says how much can be undone."""
    kinds = cast("tuple[TargetKind, ...]", operation.kinds)
    found = [audited_verb(kind, name) for kind in kinds for name in operation.verbs]
    ways = (verb and verb.why_not_undone(AuditedAction(0, verb.name, verb.kind, "", None)) is None for verb in found)
    return operation.applied > operation.undone and any(ways)


def command_of(operation: OperationRow, one: OneOperation | None) -> str:
    """Return the command that repeats the operation, or lists its rows if the audit log does not have all of it."""
    verb = verb_of(operation)
    listing = shlex.join(["horsies", "audit", "ls", "--operation", str(operation.operation_id)])
    if verb is None or operation.is_undo or any(option.metavar for option in verb.options):
        return listing
    if operation.filter is not None:
        command = verb.command(["--filter", operation.filter], {})
    elif one is None or one.id != operation.operation_id or one.more or len(one.rows) > _MOST_IN_COMMAND:
        return listing
    else:
        ids = [row.target_id for row in reversed(one.rows)]
        command = verb.command([word for each in ids for word in _words_of(verb, each)], {})
    return f"{command} {shlex.join(['--reason', operation.reason])}" if operation.reason else command


def _words_of(verb: Verb, target_id: str) -> list[str]:
    """Return the words that name a target; a node is named by its workflow and its index."""
    return list(target_id.rpartition(":")[::2]) if verb.kind == "node" else [target_id]


def story(operation: OperationRow, one: OneOperation | None, now: datetime, zone: tzinfo | None) -> list[Fact]:
    """Return who did what, when, why and from where; its result; and the command that repeats it."""
    took = operation.acted_at - operation.began_at
    lasted = f", for {length(took)}" if took else ""
    undone = Tone.MUTED if operation.undone else None
    facts = [
        Fact("did", f"{operation.verb} {target_of(operation)}: {outcome_of(operation)}", Tone.STRONG),
        Fact("by", f"{operation.who}, in the database as {operation.db_role}"),
        Fact("at", f"{moment_text(operation.began_at, now, zone)}{lasted}"),
        Fact("reason", operation.reason or "none was given", None if operation.reason else Tone.MUTED),
    ]
    facts += damage_facts(operation)
    facts += [Fact("filter", operation.filter or "empty, so everything")] if operation.filter is not None else []
    facts.append(Fact("command", command_of(operation, one), Tone.MUTED))
    facts.append(Fact("operation", str(operation.operation_id), undone or Tone.MUTED))
    return facts


def change_story(change: Change, now: datetime, zone: tzinfo | None) -> list[Fact]:
    many = f", {number(change.count)} times" if change.count > 1 and change.kind == "task" else ""
    began = f"{moment_text(change.began_at, now, zone)} to " if change.began_at != change.at else ""
    facts = [Fact("what", f"{change.kind} {change.name} {change.what}{many}", Tone.STRONG)]
    facts += [Fact("evidence", change.detail)] if change.detail else []
    facts.append(Fact("at", f"{began}{moment_text(change.at, now, zone)}"))
    by = "code that cancelled it, or its workflow" if change.what == "cancelled" else "a worker or a sweep"
    facts.append(Fact("by", f"{by}; no operator did it", Tone.MUTED))
    facts.append(Fact("id" if change.count == 1 or change.kind != "task" else "last", change.target_id, Tone.MUTED))
    return facts


def rows_of_change(change: Change) -> str:
    """Return the filter of the task list for the tasks that a change counts."""
    times = f"ended:{_moment(change.began_at)}..{_moment(change.at)}"
    terms = [Term("status", (Choice(change.what),)), Term("name", (Glob.literal(change.name),))]
    terms += [Term("error", (Glob.literal(change.detail),))] if change.detail else []
    return f"{TaskFilter(tuple(terms)).text} {times}"


def _moment(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")


def tasks_of(rows: Sequence[AuditRow]) -> str | None:
    """Return the filter of the task list for the tasks of an operation; None if it changed none."""
    ids = [row.target_id for row in rows if row.target_kind == "task"]
    return TaskFilter((Term("id", tuple(map(Glob.literal, ids))),)).text if ids else None


def summary(snapshot: ActivitySnapshot, now: datetime, zone: tzinfo | None, *, frozen: bool) -> str:
    """Return `12 operations by 3 people · 45 changes · the failures since 02:14:03Z, the newest`."""
    if snapshot.operations is None or snapshot.changes is None:
        return snapshot.error or "reading what happened…"
    operations, changes = snapshot.operations.rows, snapshot.changes.rows
    parts = ["FROZEN"] if frozen else []
    parts += [snapshot.error] if snapshot.error else []
    people = len({row.who for row in operations})
    by = f" by {counted(people, 'person', 'people')}" if people else ""
    more = "the newest " if snapshot.operations.next is not None else ""
    parts.append(f"{more}{counted(len(operations), 'operation')}{by}")
    parts.append(counted(sum(row.count if row.kind == "task" else 1 for row in changes), "change"))
    if not snapshot.operations.recorded:
        parts.append("this database has no audit log yet: `horsies db upgrade` adds it")
    if snapshot.changes.since is not None:
        parts.append(f"failures only since {moment_text(snapshot.changes.since, now, zone)}, until: shows older ones")
    return " · ".join(parts)
