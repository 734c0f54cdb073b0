"""The filter language of activity: operations of operators, and automatic changes."""

from __future__ import annotations

from typing import Final

from horsies.query.keys import KEYS, TIMES, WILDCARDS, WORDS
from horsies.query.language import Key, Kind, Language, keyed

OPERATION: Final = "operation"
CHANGE: Final = "change"
_KINDS: Final = (
    OPERATION,
    CHANGE,
    "task",
    "workflow",
    "node",
    "worker",
    "queue",
    "schedule",
    "scheduler",
    "database",
    "sweep",
    "session",
)

_KEYS: Final = keyed(
    Key(
        "by",
        Kind.TEXT,
        "who did it: the user, user@host, the host, or the role in the database",
        "by:ops",
        also=("who", "user", "person", "os_user", "role", "host"),
    ),
    Key("verb", Kind.TEXT, "what was done by an operator", "verb:requeue,fail", also=("action", "did")),
    Key(
        "kind",
        Kind.STATUS,
        "what it was: operation is by an operator, change by a worker or a sweep; or what it was done to",
        "kind:operation",
        _KINDS,
        ("what", "type", "target"),
    ),
    Key(
        "since",
        Kind.MOMENT,
        "at most so long ago; or since a day or time: 14:05, 2026-11-18, 2026-11-18T14:05",
        "since:12h",
        KEYS["since"].values,
        KEYS["since"].also,
    ),
    Key(
        "until",
        Kind.MOMENT,
        "at least so long ago; or until a day or time: 14:05, 2026-11-18, 2026-11-18T14:05",
        "until:1h",
        KEYS["until"].values,
        KEYS["until"].also,
    ),
)

ACTIVITY: Final = Language(
    "entry",
    _KEYS,
    {kind: frozenset({kind}) for kind in _KINDS},
    {},
    (
        *WORDS,
        WILDCARDS,
        TIMES,
        "A word without a key is a part of the reason, of a name or of an error code. An empty filter matches all.",
    ),
    "by:ops verb:requeue kind:operation since:12h",
)
