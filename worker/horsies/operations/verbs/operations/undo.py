"""`horsies audit undo`: restore an operation's rows, one by one, unless something happened since."""

from __future__ import annotations

from horsies.operations.verb import COMMAND_GROUPS, Verb
from horsies.operations.verbs import verbs_for


def _undoable() -> str:
    """`tasks requeue, fail and cancel; queues pause and resume`: by the records of all other verbs."""
    parts = []
    for kind, group in COMMAND_GROUPS.items():
        if kind != "operation" and (names := [verb.name for verb in verbs_for(kind) if verb.has_way_back]):
            *first, last = names
            parts.append(f"{group} {', '.join(first)} and {last}" if first else f"{group} {last}")
    return "; ".join(parts)


VERB = Verb(
    kind="operation",
    name="undo",
    place=1,
    title="Undo",
    will="will be undone",
    done="undone",
    help="Take an operation back, row by row, where there is a way back and nothing has happened since.\n\n"
    "Until you decide, no worker starts a task of it that still waits; `--dry-run` holds none. "
    f"There is one from {_undoable()}: not from what took a RUNNING task away.",
    example="horsies audit undo 01a1ee91-cf2f-7da6-9c68-28b49332a921",
    key="z",
    hint="Undo the last operation, if it can be undone.",
)
