"""The language of filters for workers, as data: that of tasks with other keys."""

from __future__ import annotations

from typing import Final

from horsies.query.keys import KEYS, WILDCARDS, WORDS
from horsies.query.language import Key, Kind, Language, keyed

_LIVENESS: Final = ("alive", "draining", "late", "lost", "died", "stopped")
"""The values of horsies.views.Liveness."""
_STATES: Final = {
    **{word: frozenset({word}) for word in _LIVENESS},
    "gone": frozenset({"lost", "died", "stopped"}),
    "silent": frozenset({"late", "lost", "died"}),
}

_KEYS: Final = keyed(
    Key(
        "status",
        Kind.STATUS,
        "whether it is alive; draining claims no more tasks, gone is lost, died or stopped",
        "status:late,lost",
        tuple(_STATES),
        (*KEYS["status"].also, "liveness"),
    ),
    Key("host", Kind.TEXT, "the machine that it runs on", "host:web-*", also=("hostname", "node", "machine")),
    Key("queue", Kind.TEXT, "a queue that it serves", "queue:email,sms", also=("q", "queues")),
    Key("id", Kind.TEXT, "its id, or its host:pid", "id:web-1:4121", also=("worker", "worker_id", "name")),
    Key("pid", Kind.TEXT, "the id of its process", "pid:4121", also=("process",)),
    Key("version", Kind.TEXT, "the version of horsies that it runs", "version:0.9.*", also=("release", "v")),
    Key("app", Kind.TEXT, "the version of the application that it runs", "app:1.4.*", also=("app_version",)),
    Key(
        "has",
        Kind.HAS,
        "it has tasks, or an order to drain",
        "has:tasks",
        ("tasks", "order"),
        ("with", "holds"),
    ),
    Key("tasks", Kind.COUNT, "how many tasks it has", "tasks:>10", (">1", ">10", ">100"), ("held", "holding")),
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
    _KEYS,
    _STATES,
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
        "For has, and for numbers and lengths of time, all that are given must hold: mem:>500 mem:<=900.",
        "A word without a key is a part of the id or the host. An empty filter matches all.",
    ),
    "status:late,lost host:web-* queue:email load:>80",
)
