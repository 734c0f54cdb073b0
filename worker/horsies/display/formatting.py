"""The format of states, ids, times and numbers in lists, and of the parts of a task or a workflow that is shown."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from horsies.display.terminal import TableCell
from horsies.domain.damage import Damaged, damaged_fields, plain_stored
from horsies.domain.plain_text import clean
from horsies.domain.quantities import counted, span

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from horsies.display.terminal import Screen
    from horsies.views import AuditRow, Count, NodeView, Usual


_STATES: Final = {
    "PENDING": ("·", ".", ""),
    "CLAIMED": ("◔", "o", "cyan"),
    "RUNNING": ("▶", ">", "blue"),
    "COMPLETED": ("✓", "+", "green"),
    "FAILED": ("✗", "x", "red"),
    "CANCELLED": ("⊘", "-", "dim"),
    "EXPIRED": ("†", "!", "yellow"),
    "RETRY": ("↻", "~", "yellow"),
    "INTERRUPTED": ("‖", "=", "bright_red"),
    # Of workflows and their nodes; no list shows them beside a task state with the same glyph.
    "READY": ("○", "o", ""),
    "ENQUEUED": ("◔", "o", "cyan"),
    "SKIPPED": ("⊘", "-", "dim"),
    "PAUSED": ("‖", "=", "bright_red"),
    # Of runs of a schedule whose task is not stored any more.
    "PRUNED": ("∅", "_", "dim"),
}
_WHOLE: Final = 12
_MAX_DAMAGED: Final = 10
_NAMES: Final = ("id", "operation_id", "label", "name", "attempt")
"""Fields by which a row is named, in this order."""
_END: Final = 8


def state(name: str, screen: Screen, more: str = "") -> TableCell:
    return marked(_STATES.get(name, ("?", "?", "")), f"{name.lower()}{more}", screen)


def marked(sign: tuple[str, str, str], text: str, screen: Screen) -> TableCell:
    """Return a text after its sign: a glyph, the same in ASCII, and a colour, which adds no information."""
    unicode, ascii_only, style = sign
    return TableCell(f"{screen.glyph(unicode, ascii_only)} {text}", style)


def short(task_id: str, screen: Screen) -> str:
    """Return the end of an id, which distinguishes it: ids begin with the time. The whole id if nothing is cut."""
    if screen.width is None or len(task_id) <= _WHOLE:
        return clean(task_id)
    return screen.glyph("…", "...") + clean(task_id[-_END:])


def lasting(length: timedelta | None) -> str:
    """Format a duration: 8ms, 0.4s, 12s, 2m04s, 3h05m; empty for None."""
    if length is None:
        return ""
    seconds = max(length.total_seconds(), 0.0)
    if seconds < 0.1:
        return f"{int(seconds * 1000)}ms"
    return f"{int(seconds * 10) / 10:.1f}s" if seconds < 10 else span(seconds)


def usual_words(usual: Usual) -> str:
    """Return, for example, `1m10s, 95 % of 214 runs within 3m05s`."""
    p50, p95 = (lasting(timedelta(seconds=seconds)) for seconds in (usual.p50_s, usual.p95_s))
    return f"{p50}, 95 % of {counted(usual.runs, 'run')} within {p95}"


def ago(moment: datetime | None, now: datetime) -> str:
    """Return how long ago it was, or with a plus how long it will take."""
    if moment is None:
        return ""
    if isinstance(moment, Damaged):
        return moment.stored
    return f"+{lasting(moment - now)}" if moment > now else lasting(now - moment)


def at(moment: datetime, now: datetime) -> str:
    """Format a time in UTC, and its distance from now."""
    if isinstance(moment, Damaged):
        return moment.stored
    far = f"in {lasting(moment - now)}" if moment > now else f"{lasting(now - moment)} ago"
    return f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S}Z  {far}"


def damage_lines(rows: Iterable[object], screen: Screen) -> list[str]:
    """Return a line for each of the first damaged rows of a list, and how many others there are."""
    found = [(row, damage) for row in rows if (damage := damaged_fields(row))]
    lines: list[str] = []
    for row, damage in found[:_MAX_DAMAGED]:
        name = next(getattr(row, key) for key in _NAMES if hasattr(row, key))
        # A text may hold arguments that are masked elsewhere; `--json` of the row has it.
        parts = ", ".join(f"{field} is {plain_stored(stored) or 'not of its type'}" for field, stored in damage.items())
        lines.append(clean(f"damaged: {name}: {parts}"))
    more = len(found) - _MAX_DAMAGED
    lines += [f"damaged: {number(more)} more"] if more > 0 else []
    return [screen.paint(line, "red") for line in lines]


def number(count: int) -> str:
    return f"{count:,}"


def count_text(count: Count) -> str:
    return f"{number(count.number)}+" if count.at_least else number(count.number)


def at_least(count: Count) -> str:
    """Format a count for sentences, which have room for the words."""
    return f"at least {number(count.number)}" if count.at_least else number(count.number)


def headline(status: str, error_code: str | None, name: str, more: str, screen: Screen) -> str:
    """Format the first line of a task, a workflow or a node that is shown."""
    shown = state(status, screen)
    painted = screen.paint(f"{shown.text} {clean(error_code)}" if error_code else shown.text, shown.style)
    return f"{painted}  {screen.paint(clean(name), 'bold')}  {clean(more)}"


def titled(title: str, lines: Iterable[str], screen: Screen) -> Iterator[str]:
    """Yield a heading and indented lines; nothing for none."""
    indented = [f"  {line}" for line in lines]
    if indented:
        yield from ("", screen.paint(title, "bold"), *indented)


def times(moments: Mapping[str, datetime | None], now: datetime) -> list[str]:
    return [f"{name:<11}{at(moment, now)}" for name, moment in moments.items() if moment is not None]


def links(texts: Mapping[str, Any]) -> list[str]:
    return [f"{name:<11}{clean(text)}" for name, text in texts.items() if text]


def actions(rows: Iterable[AuditRow], now: datetime) -> Iterator[str]:
    """Yield a line for each operator action."""
    for row in rows:
        why = f' "{clean(row.reason)}"' if row.reason else ""
        what = "" if row.outcome == "applied" else f" {row.outcome}: {clean(row.detail or '')}"
        undone = ", undone since" if row.undone_by else ""
        who = clean(f"{row.os_user}@{row.os_host} as {row.db_role}")
        yield f"{at(row.acted_at, now)}  {row.verb} by {who}{why}{what}{undone}  operation {row.operation_id}"


_NAMED: Final = 5

_ENDED: Final = frozenset({"COMPLETED", "FAILED", "SKIPPED", "CANCELLED", "EXPIRED"})


def inconsistency(node: NodeView) -> str | None:
    """Return what is inconsistent about a node: it is open, and its task or child has ended or was deleted."""
    if node.status in _ENDED:
        return None
    if node.task_id is not None and node.task_status is None:
        return "the row of its task was deleted"
    if node.task_status in _ENDED:
        return f"its task is {node.task_status} already"
    return f"its child is {node.sub_status} already" if node.sub_status in _ENDED else None


def way_out(nodes: Iterable[NodeView], workflow_id: str, status: str) -> Iterator[str]:
    """Yield what to do about inconsistent nodes. They are normal for a moment, or left by a worker that was killed."""
    names = [node.label for node in nodes if inconsistency(node) is not None]
    if not names or status not in ("RUNNING", "PAUSED"):
        return
    more = f" and {number(len(names) - _NAMED)} more" if len(names) > _NAMED else ""
    after = ", once it is resumed" if status == "PAUSED" else ""
    yield (
        f"inconsistent: {', '.join(names[:_NAMED])}{more}; where that lasts for longer than a moment,"
        f" `horsies workflows reconcile {workflow_id}` repairs it{after}"
    )


def details(node: NodeView) -> Iterator[str]:
    """Yield a node's join, the progress of its child or of its task, and its inconsistency."""
    if node.join == "any":
        yield f"any of {len(node.dependencies)}"
    elif node.join == "quorum":
        yield f"{node.min_success} of {len(node.dependencies)}"
    if node.allow_failed_deps and node.dependencies:
        yield "also after failures"
    if node.sub_total is not None:
        things = "items" if node.is_map else "nodes"
        failed = f", {number(node.sub_failed)} failed" if node.sub_failed else ""
        yield f"{number(node.sub_done or 0)} of {number(node.sub_total)} {things}{failed}"
    if node.progress is not None:
        yield " ".join(filter(None, (node.progress.percent, node.progress.amount)))
    if (found := inconsistency(node)) is not None:
        yield found
