"""`horsies audit undo`: restore an operation's rows, except those that have changed since."""

from __future__ import annotations

from horsies.operations.verb import COMMAND_GROUPS, Verb
from horsies.operations.verbs import verbs_for


def _undoable() -> str:
    """Return the verbs that can be undone, such as `tasks requeue, fail and cancel; queues pause and resume`."""
    parts = []
    for kind, group in COMMAND_GROUPS.items():
        if kind != "operation" and (names := [verb.name for verb in verbs_for(kind) if verb.has_way_back]):
            *first, last = names
            parts.append(f"{group} {', '.join(first)} and {last}" if first else f"{group} {last}")
    return "; ".join(parts)


VERBS = (
    Verb(
        kind="operation",
        name="undo",
        done="undone",
        help="Undo an operation, row by row, except rows that have changed since.\n\n"
        "Until you decide, workers do not start its waiting tasks; with `--dry-run` they do. "
        f"These can be undone: {_undoable()}. A run that was taken from its worker cannot be restored.",
        example="horsies audit undo 01a1ee91-cf2f-7da6-9c68-28b49332a921",
        key="z",
        hint="Undo the last operation, if it can be undone.",
    ),
)
