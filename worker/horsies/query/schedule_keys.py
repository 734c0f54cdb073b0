"""The language of filters for schedules, as data."""

from __future__ import annotations

from typing import Final

from horsies.query.keys import KEYS, WILDCARDS, WORDS
from horsies.query.language import Key, Kind, Language, keyed

_STATES_OF_ROWS: Final = ("scheduled", "overdue", "unserved", "paused")
"""The values of horsies.views.Standing."""
_STATES: Final = {
    **{word: frozenset({word}) for word in _STATES_OF_ROWS},
    "stuck": frozenset({"overdue", "unserved"}),
}

_KEYS: Final = keyed(
    Key(
        "status",
        Kind.STATUS,
        "whether it is sent when it should be; unserved has no scheduler, stuck is overdue or unserved",
        "status:overdue,paused",
        tuple(_STATES),
        KEYS["status"].also,
    ),
    Key("name", Kind.TEXT, "its name", "name:nightly_*", also=("schedule", "id")),
    Key("sends", Kind.TEXT, "the task or workflow that it sends", "sends:shop.*", also=("task", "workflow", "target")),
    Key("queue", Kind.TEXT, "the queue that its task is sent to", "queue:email,sms", also=("q",)),
    Key("zone", Kind.TEXT, "its time zone", "zone:Europe/*", also=("tz", "timezone")),
    Key(
        "last",
        Kind.TEXT,
        "the state of its last run, as in the filter of tasks",
        "last:failed",
        ("completed", "failed", "running", "pruned"),
        ("outcome", "result"),
    ),
    Key(
        "has",
        Kind.HAS,
        "one of its last runs failed, its next run is skipped, or it is a workflow's",
        "has:failures",
        ("failures", "skip", "workflow"),
        ("with",),
    ),
    Key("next", Kind.SPAN, "the time until its next run", "next:<10m", ("<1m", "<10m", "<1h", ">1d"), ("in", "due")),
    Key("runs", Kind.COUNT, "how often it has run", "runs:>0", (">0", ">100"), ("count",)),
)

SCHEDULES: Final = Language(
    "schedule",
    _KEYS,
    _STATES,
    {
        **dict.fromkeys(("late", "missed"), "overdue"),
        **dict.fromkeys(("orphaned", "lost", "dead"), "unserved"),
        **dict.fromkeys(("stopped", "disabled", "off"), "paused"),
        **dict.fromkeys(("ok", "waiting", "planned", "active", "enabled"), "scheduled"),
    },
    (
        *WORDS,
        WILDCARDS,
        "For has, and for numbers and lengths of time, all that are given must hold: next:>1h next:<=1d.",
        "A word without a key is a part of its name, or of what it sends. An empty filter matches all.",
    ),
    "status:overdue name:nightly_* sends:shop.* last:failed",
)
