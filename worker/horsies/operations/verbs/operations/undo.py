"""`horsies audit undo`: an operation is taken back, row by row, unless something happened since."""

from __future__ import annotations

from horsies.operations.verb import Verb

VERB = Verb(
    kind="operation",
    name="undo",
    place=1,
    title="Undo",
    will="will be taken back",
    done="taken back",
    help="Take an operation back, row by row, where there is a way back and nothing has happened since.\n\n"
    "There is one from requeue, fail, cancel, retry-now, drain, pause, resume and the skip of a schedule's slot: not "
    "from what took a RUNNING task away.",
    example="horsies audit undo 01a1ee91-cf2f-7da6-9c68-28b49332a921",
    key="z",
    hint="Take back the last operation, where that can be.",
)
