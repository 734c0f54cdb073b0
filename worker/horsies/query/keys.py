"""The language of filters for tasks, as data: each key with its words, its help and its condition in SQL."""

from __future__ import annotations

from typing import Final

from horsies.domain.states import TASK_TERMINAL_STATES, TaskStatus
from horsies.query.conditions import (
    BareWords,
    KeyFacts,
    Length,
    Membership,
    Number,
    Parts,
    Past,
    States,
    TextColumn,
    TimeBound,
    finite_length,
    id_patterns,
    worker_patterns,
)
from horsies.query.language import Key, Kind, Language, keyed

RETRY: Final = "RETRY"
SCHEDULED: Final = "SCHEDULED"
INTERRUPTED: Final = "INTERRUPTED"

_EXACT: Final = {status.value.lower(): frozenset({status.value}) for status in TaskStatus}
_DONE: Final = frozenset({*(status.value for status in TASK_TERMINAL_STATES), INTERRUPTED})
_LIVE: Final = frozenset({*(status.value for status in TaskStatus if not status.is_terminal), SCHEDULED, RETRY})

EVERY_STATE: Final = _LIVE | _DONE

STATES: Final = _EXACT | {
    "pending": frozenset({"PENDING", SCHEDULED}),
    "failed": frozenset({"FAILED", INTERRUPTED}),
    "retry": frozenset({RETRY}),
    "scheduled": frozenset({SCHEDULED}),
    "interrupted": frozenset({INTERRUPTED}),
    "live": _LIVE,
    "done": _DONE,
}
"""The states that each word after `status:` includes: PENDING is split in three, FAILED in two.

A cancel of `status:pending` once included four tasks that waited for a retry, so these have a separate state.
"""

_STATUSES: Final = {status.value: (status.value,) for status in TaskStatus} | {
    "PENDING": ("PENDING", SCHEDULED, RETRY),
    "FAILED": ("FAILED", INTERRUPTED),
}
_STATE_OF: Final = {
    "PENDING": "CASE WHEN next_retry_at > statement_timestamp() THEN 'RETRY'"
    " WHEN enqueued_at > statement_timestamp() THEN 'SCHEDULED' ELSE 'PENDING' END",
    "FAILED": "CASE WHEN error_code = 'TASK_INTERRUPTED' THEN 'INTERRUPTED' ELSE 'FAILED' END",
}
# A row that was requeued keeps the times of its last run until it starts again.
_ENDED_AT: Final = (
    "CASE WHEN status NOT IN ('PENDING', 'CLAIMED', 'RUNNING') THEN COALESCE(completed_at, failed_at) END"
)
_WAIT: Final = finite_length(
    "enqueued_at",
    "CASE WHEN status NOT IN ('PENDING', 'CLAIMED') THEN started_at"
    " WHEN enqueued_at <= statement_timestamp() THEN statement_timestamp() END",
)
_RUN: Final = finite_length(
    "started_at",
    "CASE WHEN status = 'RUNNING' THEN statement_timestamp()"
    " WHEN status NOT IN ('PENDING', 'CLAIMED') THEN COALESCE(completed_at, failed_at) END",
)
DUPLICATES: Final = (
    "(CASE WHEN unique_key IS NULL THEN 0 ELSE"
    " (SELECT COALESCE(pg_catalog.sum(sends), 0) FROM horsies_duplicate_sends WHERE task_id = task.id) END)"
)
_NODE: Final = "SELECT FROM horsies_workflow_tasks node WHERE node.task_id = task.id"

KEYS: Final = keyed(
    Key(
        "status",
        Kind.STATUS,
        "the state; pending has not started yet, scheduled is pending and due later, retry waits for its next attempt,"
        " interrupted was stopped by a shutdown and needs a decision, live is pending, retry, claimed or running,"
        " done is any other",
        "status:failed,running",
        tuple(STATES),
        ("state", "is", "st"),
        sql=States(_STATE_OF),
    ),
    Key("queue", Kind.TEXT, "the queue", "queue:email,sms", also=("q",), sql=TextColumn("queue_name")),
    Key(
        "name",
        Kind.TEXT,
        "the name of the task",
        "name:send_*",
        also=("task", "task_name", "fn", "function"),
        sql=TextColumn("task_name"),
    ),
    Key(
        "error",
        Kind.TEXT,
        "the error code",
        "error:TIMEOUT",
        also=("code", "error_code", "err", "reason"),
        sql=TextColumn("error_code"),
    ),
    Key(
        "worker",
        Kind.TEXT,
        "the worker that has or had it: its id or host:pid",
        "worker:web-1*",
        also=("host", "by"),
        sql=TextColumn("claimed_by_worker_id", worker_patterns),
    ),
    Key(
        "id",
        Kind.ID,
        "the id, its beginning or its end",
        "id:1cd6ba9a",
        also=("task_id", "uuid"),
        sql=TextColumn("task.id", id_patterns),
    ),
    Key(
        "since",
        Kind.MOMENT,
        "sent within this time, or since a day or time: 14:05, 2026-11-18, 2026-11-18T14:05",
        "since:1h",
        ("10m", "1h", "6h", "24h", "7d"),
        ("after", "from", "age", "newer"),
        sql=TimeBound("created_at >="),
    ),
    Key(
        "until",
        Kind.MOMENT,
        "sent longer ago than this, or until a day or time: 14:05, 2026-11-18, 2026-11-18T14:05",
        "until:10m",
        ("10m", "1h", "6h", "24h", "7d"),
        ("before", "to", "older"),
        sql=TimeBound("created_at <="),
    ),
    Key(
        "tries",
        Kind.TRIES,
        "the number of its attempt, 1 for the first",
        "tries:>1",
        (">1", ">2", ">3"),
        ("try", "attempt", "attempts", "retries"),
        sql=Number("retry_count + 1"),
    ),
    Key(
        "wait",
        Kind.SPAN,
        "time from due to start, or to now while it waits",
        "wait:>30s",
        (">10s", ">1m", ">10m", ">1h"),
        ("waited", "waiting", "latency"),
        sql=Length(_WAIT),
    ),
    Key(
        "run",
        Kind.SPAN,
        "time from start to end, or to now while it runs",
        "run:>5m",
        (">10s", ">1m", ">10m", ">1h"),
        ("ran", "duration", "took", "runtime"),
        sql=Length(_RUN),
    ),
    Key(
        "ended",
        Kind.PAST,
        "the time since its end, or the time of its end: ended:>=14:05, ended:2026-11-18..2026-11-19T06:00",
        "ended:<10m",
        ("<5m", "<10m", "<1h", "<24h"),
        ("finished", "done_since"),
        sql=Past(_ENDED_AT),
    ),
    Key(
        "args",
        Kind.PART,
        "a part of the stored arguments, which are JSON; put a text with double quotes in single quotes",
        'args:"order 42"',
        also=("kwargs", "arg", "payload"),
        sql=Parts(("args", "kwargs")),
    ),
    Key(
        "has",
        Kind.HAS,
        "it has an error code, a good_until, or a unique key; it is a rerun of another task; or it is due",
        "has:error",
        ("error", "deadline", "unique", "rerun", "due"),
        ("with",),
        sql=KeyFacts(
            {
                "error": "error_code IS NOT NULL",
                "deadline": "good_until IS NOT NULL",
                "unique": "unique_key IS NOT NULL",
                "rerun": "rerun_of IS NOT NULL",
                "due": "enqueued_at <= statement_timestamp()",
            }
        ),
    ),
    Key(
        "workflow",
        Kind.WORKFLOW,
        "yes or no: it belongs to a workflow; or the workflow's id, its beginning or its end",
        "workflow:yes",
        ("yes", "no"),
        ("flow", "wf"),
        sql=Membership("is_workflow_task", TextColumn("node.workflow_id", id_patterns, exists=_NODE)),
    ),
    Key("unique", Kind.TEXT, "the unique key", "unique:invoice-*", also=("unique_key",), sql=TextColumn("unique_key")),
    Key(
        "dup",
        Kind.COUNT,
        "the number of sends that stored nothing because it had their unique key",
        "dup:>0",
        (">0", ">10", ">100"),
        ("duplicates", "dups", "duplicate", "swallowed"),
        sql=Number(DUPLICATES),
    ),
)

WORDS: Final = (
    "Words are separated by spaces, and all must match. A word is key:value; a minus before it excludes.",
    "Several values of a key, separated by commas or with the key repeated, match any of them; so do bare words.",
)
WILDCARDS: Final = "* matches any text, ? any character. Quotes or a backslash make what follows literal."
NAME_OR_ID: Final = (
    "A word without a key is a part of the name, or the beginning or end of the id. An empty filter matches all."
)
TIMES: Final = (
    "Times without a zone are in the zone that the console shows (UTC, or with u this machine's), on the command line"
    " in UTC; 14:05Z and 2026-11-18T14:05+02:00 have one. A time of day is the last one, and after until: the first one"
    " after since:."
)
"""Sentences for the grammar of several languages."""


_STATES_ELSEWHERE: Final = {
    **dict.fromkeys(("success", "succeeded", "successful", "ok", "finished"), "completed"),
    **dict.fromkeys(("error", "errored", "failure", "crashed", "dead"), "failed"),
    **dict.fromkeys(("queued", "waiting", "enqueued", "ready"), "pending"),
    **dict.fromkeys(("later", "delayed", "deferred", "future"), "scheduled"),
    **dict.fromkeys(("active", "started", "busy", "executing"), "running"),
    **dict.fromkeys(("retrying", "backoff"), "retry"),
    **dict.fromkeys(("terminal", "ended", "over"), "done"),
    **dict.fromkeys(("open", "unfinished", "inflight"), "live"),
}

TASKS: Final = Language(
    "task",
    KEYS,
    STATES,
    _STATES_ELSEWHERE,
    (
        *WORDS,
        "For has, tries, wait, run and ended, all given values must match: run:>1m run:<=1h, or run:1m..1h.",
        WILDCARDS,
        TIMES,
        NAME_OR_ID,
    ),
    "status:failed,running queue:email name:send_* since:1h -error:TIMEOUT",
    _STATUSES,
    BareWords("task_name", "task.id"),
)
