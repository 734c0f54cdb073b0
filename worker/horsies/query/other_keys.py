"""The filter languages of workflows, workers, schedules and activity, as data: that of tasks with other keys."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from horsies.domain.states import WORKFLOW_TERMINAL_STATES, WorkflowStatus
from horsies.query.conditions import BareWords, Membership, TextColumn, id_patterns
from horsies.query.keys import KEYS, NAME_OR_ID, TASKS, TIMES, WILDCARDS, WORDS
from horsies.query.language import Key, Kind, Language, keyed

_ENDED: Final = frozenset(status.value for status in WORKFLOW_TERMINAL_STATES)
_OPEN: Final = frozenset(status.value for status in WorkflowStatus) - _ENDED

_WORKFLOW_STATES: Final = {
    **{status.value.lower(): frozenset({status.value}) for status in WorkflowStatus},
    "live": _OPEN,
    "done": _ENDED,
}

_WORKFLOW_KEYS: Final = keyed(
    Key(
        "status",
        Kind.STATUS,
        "the status; live is pending, running or paused, done is any other",
        "status:failed,paused",
        tuple(_WORKFLOW_STATES),
        KEYS["status"].also,
    ),
    Key("name", Kind.TEXT, "the name", "name:order_*", also=("workflow", "flow", "wf"), sql=TextColumn("name")),
    Key(
        "definition",
        Kind.TEXT,
        "the key of its definition",
        "definition:shop.order.v1",
        also=("definition_key", "def", "key"),
        sql=TextColumn("definition_key"),
    ),
    Key(
        "error",
        Kind.TEXT,
        "the code of its error",
        "error:CARD_DECLINED",
        also=KEYS["error"].also,
        sql=TextColumn("error_code"),
    ),
    Key(
        "id",
        Kind.ID,
        "the id, its beginning or its end",
        "id:1cd6ba9a",
        also=("workflow_id", "uuid"),
        sql=TextColumn("id", id_patterns),
    ),
    Key(
        "parent",
        Kind.WORKFLOW,
        "yes or no: it is a child workflow; or its parent's id, its beginning or its end",
        "parent:no",
        ("yes", "no"),
        ("child", "sub", "subworkflow", "parent_workflow_id"),
        sql=Membership("parent_workflow_id IS NOT NULL", TextColumn("parent_workflow_id", id_patterns)),
    ),
    KEYS["since"],
    KEYS["until"],
)

WORKFLOWS: Final = Language(
    "workflow",
    _WORKFLOW_KEYS,
    _WORKFLOW_STATES,
    {
        **{word: meant for word, meant in TASKS.states_elsewhere.items() if meant in _WORKFLOW_STATES},
        **dict.fromkeys(("stopped", "held", "halted"), "paused"),
        **dict.fromkeys(("canceled", "aborted"), "cancelled"),
    },
    (*WORDS, WILDCARDS, TIMES, NAME_OR_ID),
    "status:failed,paused name:order_* since:1h -error:CARD_DECLINED",
    {status.value: (status.value,) for status in WorkflowStatus},
    BareWords("name", "id"),
)

_LIVENESS: Final = ("alive", "draining", "late", "lost", "died", "stopped")
"""The values of horsies.views.Liveness."""
_WORKER_STATES: Final = {
    **{word: frozenset({word}) for word in _LIVENESS},
    "gone": frozenset({"lost", "died", "stopped"}),
    "silent": frozenset({"late", "lost", "died"}),
}

_WORKER_KEYS: Final = keyed(
    Key(
        "status",
        Kind.STATUS,
        "the liveness; draining claims no more tasks, gone is lost, died or stopped",
        "status:late,lost",
        tuple(_WORKER_STATES),
        (*KEYS["status"].also, "liveness"),
    ),
    Key("host", Kind.TEXT, "the machine that it runs on", "host:web-*", also=("hostname", "node", "machine")),
    Key("queue", Kind.TEXT, "a queue that it serves", "queue:email,sms", also=("q", "queues")),
    Key("id", Kind.TEXT, "its id, or its host:pid", "id:web-1:4121", also=("worker", "worker_id", "name")),
    Key("pid", Kind.TEXT, "the id of its process", "pid:4121", also=("process",)),
    Key("version", Kind.TEXT, "the version of horsies that it runs", "version:0.9.*", also=("release", "v")),
    Key("app", Kind.TEXT, "the version of the application that it runs", "app:1.4.*", also=("app_version",)),
    Key("has", Kind.HAS, "it has tasks, or an order to drain", "has:tasks", ("tasks", "order"), ("with", "holds")),
    Key("tasks", Kind.COUNT, "the number of its tasks", "tasks:>10", (">1", ">10", ">100"), ("held", "holding")),
    Key(
        "load",
        Kind.COUNT,
        "the percentage of its processes that run a task",
        "load:>80",
        (">50", ">80", ">99"),
        ("busy", "util", "utilisation", "utilization"),
    ),
    Key("cpu", Kind.COUNT, "the CPU of its main process, in per cent of a core", "cpu:>80", (">50", ">80")),
    Key(
        "mem",
        Kind.COUNT,
        "the memory of it and its children, in MB",
        "mem:>500",
        (">500", ">1000", ">4000"),
        ("memory", "rss", "ram"),
    ),
    Key("up", Kind.SPAN, "the time since its start", "up:<10m", ("<10m", ">1h", ">7d"), ("uptime", "age", "since")),
    Key(
        "silent",
        Kind.SPAN,
        "the time since its last sign of life",
        "silent:>30s",
        (">30s", ">5m", ">1h"),
        ("silence", "seen", "beat"),
    ),
)

WORKERS: Final = Language(
    "worker",
    _WORKER_KEYS,
    _WORKER_STATES,
    {
        **dict.fromkeys(("live", "living", "ok", "up", "active", "online", "running"), "alive"),
        **dict.fromkeys(("vanished", "down", "offline"), "lost"),
        **dict.fromkeys(("dead", "crashed", "killed"), "died"),
        **dict.fromkeys(("left", "exited", "shutdown"), "stopped"),
        **dict.fromkeys(("drain", "drained", "stopping"), "draining"),
        **dict.fromkeys(("slow", "stale", "overdue"), "late"),
    },
    (
        *WORDS,
        WILDCARDS,
        "For has, and for numbers and lengths of time, all given values must match: mem:>500 mem:<=900.",
        "A word without a key is a part of the id or the host. An empty filter matches all.",
    ),
    "status:late,lost host:web-* queue:email load:>80",
)

_STANDINGS: Final = ("scheduled", "overdue", "unserved", "paused")
"""The values of horsies.views.Standing."""
_SCHEDULE_STATES: Final = {
    **{word: frozenset({word}) for word in _STANDINGS},
    "stuck": frozenset({"overdue", "unserved"}),
}

_SCHEDULE_KEYS: Final = keyed(
    Key(
        "status",
        Kind.STATUS,
        "the state; unserved has no scheduler, stuck is overdue or unserved",
        "status:overdue,paused",
        tuple(_SCHEDULE_STATES),
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
        "one of its last runs failed, its next run is skipped, or it starts a workflow",
        "has:failures",
        ("failures", "skip", "workflow"),
        ("with",),
    ),
    Key("next", Kind.SPAN, "the time until its next run", "next:<10m", ("<1m", "<10m", "<1h", ">1d"), ("in", "due")),
    Key("runs", Kind.COUNT, "the number of its runs", "runs:>0", (">0", ">100"), ("count",)),
)

SCHEDULES: Final = Language(
    "schedule",
    _SCHEDULE_KEYS,
    _SCHEDULE_STATES,
    {
        **dict.fromkeys(("late", "missed"), "overdue"),
        **dict.fromkeys(("orphaned", "lost", "dead"), "unserved"),
        **dict.fromkeys(("stopped", "disabled", "off"), "paused"),
        **dict.fromkeys(("ok", "waiting", "planned", "active", "enabled"), "scheduled"),
    },
    (
        *WORDS,
        WILDCARDS,
        "For has, and for numbers and lengths of time, all given values must match: next:>1h next:<=1d.",
        "A word without a key is a part of its name, or of what it sends. An empty filter matches all.",
    ),
    "status:overdue name:nightly_* sends:shop.* last:failed",
)

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

_ACTIVITY_KEYS: Final = keyed(
    Key(
        "by",
        Kind.TEXT,
        "the operator: the user, user@host, the host, or the role in the database",
        "by:ops",
        also=("who", "user", "person", "os_user", "role", "host"),
    ),
    Key("verb", Kind.TEXT, "the verb of the operation", "verb:requeue,fail", also=("action", "did")),
    Key(
        "kind",
        Kind.STATUS,
        "operation is by an operator, change by a worker or a sweep; or the kind of the target",
        "kind:operation",
        _KINDS,
        ("what", "type", "target"),
    ),
    replace(
        KEYS["since"],
        help="within this time, or since a day or time: 14:05, 2026-11-18, 2026-11-18T14:05",
        example="since:12h",
        sql=None,
    ),
    replace(
        KEYS["until"],
        help="longer ago than this, or until a day or time: 14:05, 2026-11-18, 2026-11-18T14:05",
        example="until:1h",
        sql=None,
    ),
)

ACTIVITY: Final = Language(
    "entry",
    _ACTIVITY_KEYS,
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
