"""Rows that are damaged in each way that their types allow, each in a family of rows like those of healthy ones.

A template is a family: rows of several tables that belong together, with `{id}` where the id of the family stands.
`damages` makes, from the catalog, a copy of it for each column and each value that a hand, another program or another
release could store there; what a constraint forbids is left out by the database itself.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

import asyncpg

Row = Mapping[str, Any]
Rows = Mapping[str, Row]
"""By table; of a second row of one table its name is followed by a word."""

OPTIONS: Final = '{"retry_policy": {"max_retries": 3, "intervals": [60], "auto_retry_for": ["BROKE"]}}'
COMPLETED: Final = '{"__task_result__": true, "ok": 3, "err": null}'
FAILED: Final = (
    '{"__task_result__": true, "ok": null,'
    ' "err": {"__task_error__": true, "error_code": "BROKE", "message": "it broke"}}'
)

LARGEST, LEAST = 2_147_483_647, -2_147_483_648
_DEEP: Final = "[" * 20_000
_LONG: Final = "long " * 20_000
_TIMES: Final = (
    "infinity",
    "4714-11-24 00:00:00+00 BC",
    "294276-12-31 23:59:59.999999+00",
    "-infinity",
    "4000-01-01 BC",
    "0001-01-01 00:00+00",
)
_BAD_JSON: Final = (
    "",
    "{",
    "null",
    "7",
    '"text"',
    "[]",
    "{}",
    '[{"a": 1e400}, NaN, Infinity]',
    '"\\ud800"',
    "[1" + "0" * 5_000 + "]",
    _DEEP,
    "[" * 300 + "]" * 300,
    "[" * 900 + "]" * 900,
    _LONG,
    '{"retry_policy": {"max_retries": 1e400, "intervals": [1e400], "auto_retry_for": 7}}',
    '{"trace": [], "timeout_ms": "x", "good_until": 7, "retry_policy": []}',
    '{"__task_result__": true, "ok": null, "err": {"error_code": 7, "message": []}}',
)
_BAD_JSONB: Final = ("text", 7, [], {"default": "x", "a": 10**400}, {}, [["a"], None], "null")
_BY_TYPE: Final[Mapping[str, tuple[Any, ...]]] = {
    "timestamptz": _TIMES,
    "int4": (LEAST, -1, 0, LARGEST),
    "int8": (-(2**63) + 1, -1, 0, 2**63 - 1),
    "float8": ("NaN", "Infinity", "-Infinity", 1.7e308, -1.7e308, 0, 5e-324),
    "bool": (True, False),
    "text": _BAD_JSON,
    "varchar": ("", "not-a-uuid", "\u202e\x1b[31m\n", "NaN", "UNKNOWN", "x" * 255, "x" * 128, "x" * 100, "x" * 36, "x"),
    "uuid": ("00000000-0000-0000-0000-000000000000",),
    "interval": ("178000000 years", "-178000000 years", "0"),
    "tstzmultirange": ("{}", "{(,)}", "{[-infinity,infinity]}", "{[4000-01-01 BC,4000-01-02 BC]}"),
    "_text": ([], [["a", "b"], ["c", "d"]], [None], ["", _LONG]),
    "_varchar": ([], [["a", "b"], ["c", "d"]], [None], [""]),
    "_int4": ([], [[1, 2], [3, 4]], [None], [LEAST, LARGEST, 0, 0]),
}
_WRONG: Final = ("x", 10**400, -1, True, None, [], {})
"""In place of each value of an object in a column of JSON. Of the settings of workers not the numbers: the function
horsies_runs_silent_before of the schema casts them."""


@dataclass(frozen=True, slots=True)
class Damage:
    """One family, and what is wrong with it."""

    id: str
    template: str
    table: str
    column: str
    value: Any

    def __str__(self) -> str:
        return f"{self.id}: {self.template} {self.table}.{self.column} = {self.value!r:.60}"


@dataclass(frozen=True, slots=True)
class _Column:
    table: str
    name: str
    kind: str


@dataclass(frozen=True, slots=True)
class _Way:
    """A column of a row of a template, and the values that its type allows."""

    row: str
    column: _Column
    values: tuple[Any, ...]

    def turn(self, number: int) -> Any:
        return self.values[number % len(self.values)]


_MOST_TRIES: Final = 12
_COLUMNS = """
SELECT table_name::text, column_name::text, udt_name::text FROM information_schema.columns
 WHERE table_schema = 'public' AND table_name LIKE 'horsies\\_%' AND table_name <> 'horsies_console_schema'
 ORDER BY table_name, ordinal_position"""
_FREE = """
SELECT class.relname::text, attname::text
  FROM pg_attribute
  JOIN pg_class class ON class.oid = attrelid
 WHERE class.relkind = 'r' AND relname LIKE 'horsies\\_%' AND attnum > 0 AND NOT attisdropped
   AND relname NOT IN ('horsies_console_schema', 'horsies_pulse')
   AND NOT EXISTS (SELECT FROM pg_constraint WHERE contype IN ('c', 'f')
                      AND (conrelid = attrelid AND attnum = ANY (conkey)
                           OR confrelid = attrelid AND attnum = ANY (confkey)))"""
# A row that the database refuses leaves its family without this damage: the family is not made at all.
_INSERT = """
CREATE OR REPLACE FUNCTION pg_temp.store(family jsonb) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
    one record;
    names text;
BEGIN
    FOR one IN SELECT each ->> 'table' AS relation, each -> 'row' AS row FROM jsonb_array_elements(family) each LOOP
        SELECT string_agg(quote_ident(key), ', ') INTO names FROM jsonb_object_keys(one.row) AS key;
        EXECUTE format('INSERT INTO %I (%s) OVERRIDING SYSTEM VALUE SELECT %s FROM jsonb_populate_record(NULL::%I, $1)',
                       one.relation, names, names, one.relation) USING one.row;
    END LOOP;
    RETURN NULL;
EXCEPTION WHEN integrity_constraint_violation OR data_exception OR invalid_parameter_value THEN
    RETURN SQLERRM;
END $$"""


async def columns(conn: asyncpg.Connection) -> list[_Column]:
    """All columns of all tables of ours, so that a new one is damaged without a change here."""
    return [_Column(*row) for row in await conn.fetch(_COLUMNS)]


async def free_columns(conn: asyncpg.Connection) -> set[tuple[str, str]]:
    """Those of no foreign key and no check. The pulse is one row of the whole cluster, and the server checks it."""
    free = await conn.fetch(_FREE)
    return {(row[0], row[1]) for row in free}


async def store(conn: asyncpg.Connection, families: Mapping[str, Rows]) -> dict[str, str | None]:
    """Insert each family, all rows of it or none; by id, why the database refused it."""
    await conn.execute(_INSERT)
    bodies = [
        json.dumps([{"table": table.split(" ")[0], "row": row} for table, row in rows.items()])
        for rows in families.values()
    ]
    answers = await conn.fetch("SELECT pg_temp.store(body::jsonb) FROM unnest($1::text[]) AS body", bodies)
    return {name: answer for name, (answer,) in zip(families, answers, strict=True)}


async def damaged(conn: asyncpg.Connection, templates: Mapping[str, Rows], *, in_every_way: bool) -> list[Damage]:
    """Store damaged copies of each template, and return those that the database took.

    Each column of each row is NULL in one copy. `in_every_way`: and each value that its type allows in a copy of its
    own; otherwise one value, another one for each row, so that each is stored somewhere.
    """
    ways = list(_ways(await columns(conn), templates))
    more = [(template, way, value) for template, way in ways for value in way.values] if in_every_way else []
    kept = await _kept(conn, templates, [*((template, way, None) for template, way in ways), *more], 0)
    if in_every_way:
        return kept
    # Each takes its turn among the values; what the database refuses for this column tries the next one.
    begun = 50_000
    left = dict(enumerate(ways))
    for attempt in range(_MOST_TRIES):
        tried = [(template, way, way.turn(number + attempt)) for number, (template, way) in left.items()]
        taken = await _kept(conn, templates, tried, begun)
        kept += taken
        stored = {int(one.id) - begun for one in taken}
        left = {number: way for place, (number, way) in enumerate(left.items()) if place not in stored}
        begun += len(tried)
    return kept


async def _kept(
    conn: asyncpg.Connection, templates: Mapping[str, Rows], ways: Sequence[tuple[str, _Way, Any]], begun: int
) -> list[Damage]:
    families: dict[str, Rows] = {}
    damages: dict[str, Damage] = {}
    for template, way, value in ways:
        number = f"{begun + len(families):05}"
        given = {key: dict(each) for key, each in copied(templates[template], number).items()}
        given[way.row][way.column.name] = value
        families[number] = given
        damages[number] = Damage(number, template, way.column.table, way.column.name, value)
    answers = await store(conn, families)
    return [damages[number] for number, refused in answers.items() if refused is None]


def _ways(found: Sequence[_Column], templates: Mapping[str, Rows]) -> Iterator[tuple[str, _Way]]:
    for name, template in templates.items():
        for key, row in template.items():
            for column in found:
                if column.table == key.split(" ")[0]:
                    yield name, _Way(key, column, tuple(_values(column, row.get(column.name))))


def copied(template: Rows, number: str) -> Rows:
    """The family with this id."""
    return {table: _with_id(row, number) for table, row in template.items()}


def _with_id(value: Any, number: str) -> Any:
    match value:
        case str():
            return value.replace("{id}", number)
        case dict():
            return {key: _with_id(item, number) for key, item in value.items()}
        case list():
            return [_with_id(item, number) for item in value]
        case _:
            return value


def _values(column: _Column, sound: Any) -> Iterator[Any]:
    if column.kind != "jsonb":
        yield from _BY_TYPE[column.kind]
        return
    yield from _BAD_JSONB
    yield from ({**sound, key: one} for key in sound or {} for one in _WRONG)


def templates(now: datetime) -> dict[str, Rows]:
    """Families that a sweep recovers, a worker runs, retention prunes, or that only readers see."""

    def ago(**length: float) -> str:
        return (now - timedelta(**length)).isoformat()

    dead = {"claimed_by_worker_id": "dead-1-aa", "worker_hostname": "dead", "worker_pid": 7}
    task = {
        "id": "task-{id}",
        "task_name": "add",
        "queue_name": "default",
        "priority": 100,
        "args": "[1, 2]",
        "kwargs": "{}",
        "status": "PENDING",
        "claimed": False,
        "is_workflow_task": False,
        "retry_count": 0,
        "max_retries": 3,
        "task_options": OPTIONS,
        "enqueue_sha": "by-hand",
        "sent_at": ago(hours=2),
        "enqueued_at": ago(hours=2),
        "created_at": ago(hours=2),
        "updated_at": ago(hours=1),
    }
    claim = {**dead, "claimed": True, "claimed_at": ago(hours=1), "claim_expires_at": ago(minutes=50)}
    run = {**dead, "status": "RUNNING", "claimed_at": ago(hours=1), "started_at": ago(hours=1)}
    end = {**run, "status": "FAILED", "failed_at": ago(minutes=1), "result": FAILED, "error_code": "BROKE"}
    old = {name: ago(days=90) for name in ("sent_at", "enqueued_at", "created_at", "updated_at", "started_at")}
    completed = {**run, **old, "status": "COMPLETED", "completed_at": ago(days=90), "result": COMPLETED}
    attempt = {
        "id": "90{id}",
        "task_id": "task-{id}",
        "attempt": 1,
        "outcome": "FAILED",
        "will_retry": False,
        "started_at": ago(minutes=2),
        "finished_at": ago(minutes=1),
        "error_code": "BROKE",
        "created_at": ago(minutes=1),
    }
    beat = {"task_id": "task-{id}", "sender_id": "dead-1-aa:7", "pid": 7, "hostname": "dead"}
    progress = {"done": 5, "total": 10, "unit": "rows", "rate": 1, "gap_s": 1, "reported_at": ago(seconds=1)}
    return {
        "pending": {
            "horsies_tasks": {**task, "unique_key": "key-{id}"},
            "horsies_duplicate_sends": {"task_id": "task-{id}", "backend": 1, "sends": 2, "last_at": ago(hours=1)},
        },
        "overdue": {"horsies_tasks": {**task, "good_until": ago(hours=1)}},
        "claimed": {
            "horsies_tasks": {**task, **claim, "status": "CLAIMED"},
            "horsies_heartbeats": {**beat, "id": "91{id}", "role": "claimer", "sent_at": ago(hours=1)},
        },
        "running": {
            "horsies_tasks": {**task, **run},
            "horsies_heartbeats": {**beat, "id": "92{id}", "role": "runner", "sent_at": ago(minutes=59)},
            "horsies_progress": {**progress, "task_id": "task-{id}", "started_at": ago(hours=1)},
            "horsies_task_attempts": attempt,
        },
        "failed": {"horsies_tasks": {**task, **end, "rerun_of": "task-{id}"}, "horsies_task_attempts": attempt},
        "completed": {
            "horsies_tasks": {**task, **completed},
            "horsies_task_attempts": {**attempt, "outcome": "COMPLETED"},
            "horsies_heartbeats": {**beat, "id": "93{id}", "role": "runner", "sent_at": ago(days=90)},
        },
        **_workflows(ago, {**task, "is_workflow_task": True}, {**run, "status": "COMPLETED", "result": COMPLETED}),
        **_cluster(ago, {**task, **run}),
    }


def _workflows(ago: Callable[..., str], task: Row, ended: Row) -> dict[str, Rows]:
    flow = {
        "id": "flow-{id}",
        "name": "nightly",
        "status": "RUNNING",
        "on_error": "fail",
        "depth": 0,
        "root_workflow_id": "flow-{id}",
        "definition_key": "nightly",
        "success_policy": {"cases": [{"required_indices": [0]}]},
        **dict.fromkeys(("sent_at", "created_at", "started_at", "updated_at"), ago(hours=2)),
    }
    node = {
        "workflow_id": "flow-{id}",
        "task_name": "add",
        "task_args": "[1, 2]",
        "task_kwargs": "{}",
        "queue_name": "default",
        "priority": 100,
        "dependencies": [],
        "allow_failed_deps": False,
        "join_type": "all",
        "is_subworkflow": False,
        "task_options": OPTIONS,
        "created_at": ago(hours=2),
    }
    first = {**node, "id": "first-{id}", "task_index": 0, "node_id": "first", "started_at": ago(hours=1)}
    second = {**node, "id": "second-{id}", "task_index": 1, "node_id": "second", "status": "PENDING"}
    second |= {"dependencies": [0], "args_from": {"a": 0}, "workflow_ctx_from": ["first"]}
    over = dict.fromkeys(("sent_at", "created_at", "started_at", "updated_at", "completed_at"), ago(days=90))
    return {
        # Its worker died before the advance: the reconciliation ends the first node and starts the second one.
        "stuck": {
            "horsies_workflows": flow,
            "horsies_tasks": {**task, **ended, "completed_at": ago(minutes=30)},
            "horsies_workflow_tasks": {**first, "status": "RUNNING", "task_id": "task-{id}"},
            "horsies_workflow_tasks second": second,
        },
        "flow over": {
            "horsies_workflows": {**flow, **over, "status": "COMPLETED", "result": COMPLETED},
            "horsies_workflow_tasks": {**first, "status": "COMPLETED", "completed_at": ago(days=90)},
        },
        "child": {
            "horsies_workflows": flow,
            "horsies_workflow_tasks": {
                **first,
                "status": "READY",
                "is_subworkflow": True,
                "sub_workflow_name": "inner",
                "sub_definition_key": "inner",
                "sub_workflow_summary": '{"total_tasks": 1}',
            },
        },
    }


def _cluster(ago: Callable[..., str], run: Row) -> dict[str, Rows]:
    snapshot = {
        "id": "90{id}",
        "worker_id": "web-{id}",
        "hostname": "web",
        "pid": 1,
        "processes": 2,
        "max_claim_batch": 2,
        "max_claim_per_worker": 2,
        "cluster_wide_cap": 9,
        "queues": ["default"],
        "queue_priorities": {"default": 1},
        "queue_max_concurrency": {"default": 5},
        "recovery_config": {
            "running_stale_threshold_ms": 300_000,
            "runner_heartbeat_interval_ms": 30_000,
            "heartbeat_retention_hours": 24,
            "auto_fail_stale_running": True,
        },
        "tasks_running": 0,
        "tasks_claimed": 0,
        **dict.fromkeys(("memory_usage_mb", "children_memory_mb", "memory_percent", "cpu_percent"), 1.5),
        "snapshot_at": ago(seconds=1),
        "worker_started_at": ago(hours=1),
        "task_names": ["add"],
        **dict.fromkeys(("container_memory_mb", "largest_child_mb"), 1.5),
        **dict.fromkeys(("container_limit_mb", "child_limit_mb"), 900.0),
        "largest_child_pid": 8,
        "horsies_version": "0.1",
        "app_version": "1.4",
    }
    schedule = {"pattern": {"type": "interval", "minutes": 5}, "timezone": "UTC", "kind": "task", "target": "add"}
    action = {"operation_id": "00000000-0000-0000-0000-{id}0000000", "verb": "requeue", "outcome": "applied"}
    action |= {"target_kind": "task", "target_id": "task-{id}", "db_role": "me", "os_user": "me", "os_host": "here"}
    action |= {"before_state": {"status": "FAILED"}, "after_state": {"status": "PENDING"}, "reason": "why"}
    return {
        "worker": {"horsies_worker_states": snapshot, "horsies_tasks": {**run, "claimed_by_worker_id": "web-{id}"}},
        "worker over": {"horsies_worker_states": {**snapshot, "snapshot_at": ago(days=90)}},
        "loss": {
            "horsies_worker_losses": {
                "id": "90{id}",
                "worker_id": "gone-{id}",
                "taken_at": ago(hours=1),
                "failed": ["a"],
                "retried": ["b"],
                "returned": [],
            },
        },
        "outage": {"horsies_outages": {"id": "90{id}", "began_at": ago(hours=2), "ended_at": ago(hours=1)}},
        "sample": {
            "horsies_queue_samples": {
                "sampled_at": "2026-01-01 12:00:00Z",
                "queue_name": "q-{id}",
                "waiting": 3,
            },
        },
        "sweep that changed rows": {
            "horsies_sweeps": {
                "id": "90{id}",
                "swept_at": ago(hours=1),
                "worker_id": "web-{id}",
                "expired": 1,
                "repairs": 2,
                "workflows": 1,
            },
        },
        "order": {
            "horsies_worker_orders": {
                "worker_id": "web-{id}",
                "draining_since": ago(hours=1),
                "ordered_by": "me",
                "updated_at": ago(hours=1),
            },
        },
        "cap": {"horsies_caps": {"queue_name": "q-{id}"}},
        "pause": {
            "horsies_queue_state": {"queue_name": "q-{id}", "paused_at": ago(hours=1), "updated_at": ago(hours=1)},
        },
        "action": {"horsies_operator_actions": {**action, "id": "90{id}", "acted_at": ago(hours=1)}},
        "action over": {"horsies_operator_actions": {**action, "id": "90{id}", "acted_at": ago(days=900)}},
        "sweep": {
            "horsies_sweep_state": {
                "sweep": "runs 1{id}",
                "ran_at": ago(hours=1),
                "worker_id": "web",
                "interval_ms": 30_000,
                "report": {"requeued": 0, "refused": 0},
            },
        },
        "look": {
            "horsies_looks": {
                "look_id": "00000000-0000-0000-0000-{id}0000000",
                "task_id": "task-{id}",
                "worker_id": "web-{id}",
                "claimed_at": ago(hours=1),
                "kind": "stack",
                "with_locals": False,
                "after_line": 0,
                "asked_at": ago(hours=1),
                "answer": {"lines": []},
            },
        },
        "schedule": {
            "horsies_schedules": {
                "schedule_name": "every-{id}",
                "config_hash": "x",
                "definition": schedule,
                "registered_at": ago(hours=1),
            },
            "horsies_schedule_state": {
                "schedule_name": "every-{id}",
                "next_run_at": ago(minutes=-5),
                "last_run_at": ago(minutes=5),
                "run_count": 1,
                "last_task_id": "task-{id}",
                "updated_at": ago(minutes=5),
            },
            "horsies_schedule_runs": {
                "schedule_name": "every-{id}",
                "slot": ago(minutes=5),
                "sent_at": ago(minutes=5),
                "task_id": "task-{id}",
            },
        },
        "schedule run over": {
            "horsies_schedule_runs": {
                "schedule_name": "over-{id}",
                "slot": ago(days=90),
                "sent_at": ago(days=90),
                "task_id": "task-{id}",
            },
        },
        "scheduler": {
            "horsies_schedulers": {
                "scheduler_id": "s-{id}",
                "hostname": "web",
                "pid": 1,
                "schedules": ["every-{id}"],
                "horsies_version": "0.1",
                "started_at": ago(hours=1),
                "seen_at": ago(seconds=1),
            },
        },
    }
