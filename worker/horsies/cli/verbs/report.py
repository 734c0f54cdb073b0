"""The preview and the result of a verb, in lines for people and as one object for machines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from horsies.cli.database import advised
from horsies.cli.options import ALL_APPLIED, FAILED, INTERRUPTED, NOTHING_MATCHED, SOME_REFUSED
from horsies.display.formatting import number, short
from horsies.display.payload import Masks, change_texts
from horsies.display.terminal import Screen, TableCell, TableColumn, table
from horsies.domain.plain_text import clean
from horsies.domain.quantities import counted
from horsies.operations.target import RowOutcome, Target
from horsies.operations.verb import OperationOutcome, Preview

STOPPING: Final = "stopping after the rows at hand; ctrl+c again aborts"
ABORTED: Final = "aborted; see `horsies audit ls`"

_MAX_LISTED: Final = 20
_MAX_KINDS: Final = 10
_NOT_THERE: Final = frozenset({"missing", "unknown"})


def code_of(preview: Preview, outcome: OperationOutcome | None) -> int:
    """Return the exit code: 0 all applied, 3 some refused, 4 nothing matched, 1 an error, 130 interrupted by ctrl+c."""
    if not preview.eligible and all(refusal.target.state in _NOT_THERE for refusal in preview.refused):
        return NOTHING_MATCHED
    if outcome is not None and outcome.stopped is not None:
        return INTERRUPTED if outcome.stopped == "interrupted" else FAILED
    return SOME_REFUSED if preview.refused or (outcome is not None and outcome.refused) else ALL_APPLIED


def report(preview: Preview, outcome: OperationOutcome | None, label: str, *, dry_run: bool) -> dict[str, Any]:
    """Return the object for `--json`; the same keys for every verb, before and after."""
    listed = list(_rows(preview, outcome))
    results = Counter(row["result"] for row in listed)
    operation = None if outcome is None else str(outcome.operation_id)
    return {
        "verb": preview.verb.name,
        "database": label,
        "dry_run": dry_run,
        "operation_id": operation,
        "filter": preview.filter,
        "command": preview.command,
        "taken_at": preview.taken_at,
        "eligible": len(preview.eligible),
        "applied": results["applied"],
        "refused": results["refused"],
        "not_attempted": results["not attempted"],
        "in_doubt": results["in doubt"],
        "stopped": None if outcome is None else outcome.stopped,
        "consequences": preview.consequences,
        "undo": None if outcome is None else undo_command(outcome),
        "rows": listed,
    }


def _rows(preview: Preview, outcome: OperationOutcome | None) -> Iterator[dict[str, Any]]:
    if outcome is None:
        yield from (_row(target, "eligible", None) for target in preview.eligible)
    else:
        for row in outcome.rows:
            yield _row(row.target, "applied" if row.applied else "refused", row.detail, row.new_id)
        yield from (_row(target, "not attempted", outcome.stopped) for target in outcome.not_attempted)
        yield from (_row(target, "in doubt", outcome.stopped) for target in outcome.in_doubt)
    yield from (_row(refusal.target, "refused", refusal.reason) for refusal in preview.refused)


def _row(target: Target, result: str, detail: str | None, new_id: str | None = None) -> dict[str, Any]:
    return {
        "kind": target.kind,
        "id": target.id,
        "name": target.label,
        "state": target.state,
        "result": result,
        "detail": detail,
        "new_id": new_id,
    }


def undo_command(outcome: OperationOutcome) -> str | None:
    return advised(f"horsies audit undo {outcome.operation_id}") if outcome.can_be_undone else None


def preview_lines(preview: Preview, thing: str, label: str, screen: Screen, *, dry_run: bool) -> list[str]:
    """Return what will change, what will not and why, and what the operator should know before."""
    if not preview.eligible and not preview.refused:
        asked = f"matches {preview.filter}" if preview.filter else "was named"
        return [f"nothing to {preview.verb}: no {thing} {clean(asked)}"]
    if not preview.eligible:
        headline = f"nothing to {preview.verb} in {clean(label)}"
    else:
        headline = f"{'would ' if dry_run else ''}{preview.verb} {_things(preview.eligible)} in {clean(label)}"
    lines = [screen.paint(headline, "bold")]
    if preview.undone is not None:
        lines.append(f"  {clean(preview.undone.words(preview.taken_at))}")
    if preview.filter:
        lines.append(f"  filter: {clean(preview.filter)}")
    lines += _listed(preview.eligible, screen)
    masks = Masks.of() if preview.changes else Masks()
    lines += [f"  {name}  {text}" for name, text in change_texts(preview.changes, masks)]
    lines += _refusals(((refusal.target, refusal.reason) for refusal in preview.refused), screen, "will not:")
    if preview.eligible:
        held = f"{counted(preview.held, 'task')} held: no worker starts them before you decide"
        sentences = (*((held,) if preview.held else ()), *preview.consequences)
        lines += [f"  {screen.glyph('•', '*')} {clean(sentence)}" for sentence in sentences]
    if dry_run and preview.eligible:
        lines.append(f"  without --dry-run: {clean(preview.command)}")
    return lines


def outcome_lines(preview: Preview, outcome: OperationOutcome, screen: Screen, *, preview_shown: bool) -> list[str]:
    """Return how many changed; each result if there are few; refusals not shown before; and how to undo it."""
    applied, not_applied = outcome.applied, len(outcome.refused) + len(preview.refused)
    parts = [f"{number(len(applied))} {outcome.verb.done}"]
    parts += [f"{number(not_applied)} refused"] if not_applied else []
    parts += [f"{number(len(outcome.in_doubt))} in doubt"] if outcome.in_doubt else []
    parts += [f"{number(len(outcome.not_attempted))} not attempted"] if outcome.not_attempted else []
    lines = [screen.paint(", ".join(parts), "bold")]
    if outcome.stopped:
        lines.append(f"  stopped: {clean(outcome.stopped)}")
    if len(applied) <= _MAX_LISTED:
        mark = TableCell(screen.glyph("✓", "+"), "green")
        cells = [(mark, _id(row.target, screen), row.target.label, _detail(row, outcome.verb.name)) for row in applied]
        columns = (
            TableColumn(""),
            TableColumn("", rank=1),
            TableColumn("", least=10),
            TableColumn("", least=10, rank=1),
        )
        lines += [f"  {line}" for line in table(columns, cells, screen.inside)[1:]]
    refused = [(row.target, row.detail) for row in outcome.refused]
    refused += [] if preview_shown else [(refusal.target, refusal.reason) for refusal in preview.refused]
    lines += _refusals(refused, screen, "refused:")
    if way_back := undo_command(outcome):
        lines.append(f"  undo, except rows that have changed since: {way_back}")
    if outcome.in_doubt or len(applied) > _MAX_LISTED:
        lines.append(f"  each row: horsies audit ls --operation {outcome.operation_id}")
    return lines


def _things(targets: Sequence[Target]) -> str:
    return counted(len(targets), targets[0].kind)


def _listed(targets: Sequence[Target], screen: Screen) -> list[str]:
    """List the targets one by one if there are few, otherwise how many there are of each name and state."""
    if len(targets) <= _MAX_LISTED:
        # For a worker or a queue the name is the id.
        few = [(_id(target, screen), target.label, target.state) for target in targets]
        columns = (TableColumn("ID", rank=1), TableColumn("NAME", least=10), TableColumn("STATE", least=12))
        return [f"  {line}" for line in table(columns, few, screen.inside)[1:]]
    kinds = Counter((target.label, target.state) for target in targets)
    cells = [(number(count), *kind) for kind, count in kinds.most_common(_MAX_KINDS)]
    columns = (TableColumn("", right=True), TableColumn("", least=10), TableColumn("", least=12))
    lines = [f"  {line}" for line in table(columns, cells, screen.inside)[1:]]
    more = len(kinds) - _MAX_KINDS
    return [*lines, f"  and {counted(more, 'more kind')}"] if more > 0 else lines


def _detail(row: RowOutcome, verb: str) -> str:
    """Return the detail; nothing if it is only the verb, as of an order: the headline has that."""
    return "" if row.detail == verb else row.detail


def _id(target: Target, screen: Screen) -> str:
    return short(target.id, screen) if target.kind in ("task", "workflow") else ""


def _refusals(refused: Iterable[tuple[Target, str]], screen: Screen, heading: str) -> list[str]:
    """Return the refusals by reason, with the first few targets of each."""
    by_reason: dict[str, list[Target]] = {}
    for target, reason in refused:
        by_reason.setdefault(reason, []).append(target)
    lines = [heading] if by_reason else []
    most_first = sorted(by_reason.items(), key=lambda item: -len(item[1]))
    for reason, targets in most_first[:_MAX_LISTED]:
        shown = ", ".join(_id(target, screen) or clean(target.id) for target in targets[:5])
        more = f" and {number(len(targets) - 5)} more" if len(targets) > 5 else ""
        count = f"{number(len(targets))} {screen.glyph('×', 'x')} " if len(targets) > 1 else ""
        mark = screen.paint(screen.glyph("✗", "x"), "red")
        lines.append(f"  {mark} {count}{clean(reason)}  {screen.paint(f'{shown}{more}', 'dim')}")
    left = len(most_first) - _MAX_LISTED
    return [*lines, f"  and for {counted(left, 'more reason')}: --json lists all"] if left > 0 else lines
