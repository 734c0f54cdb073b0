"""Every statement that can run on a caller's connection, with texts in its parameters that could be read as code."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from horsies.domain.plan import NodePlan, WorkflowPlan
from horsies.failed_sends import _fail
from horsies.lifecycle.create_workflow import create_workflow, difference
from horsies.store.enqueue import Enqueued, EnqueueOutcome, EnqueueRequest, drive, many, one

ATTACK = "DELETE FROM app_users; --"
TEXTS = [
    *(f"k{end}{ATTACK}" for end in ("\n", "\r", "\r\n", "\v", "\f", "\x1c", "\x85", "\u2028", "\u2029", "*/", ";")),
    *(f"k{end} {ATTACK}" for end in ("'", "';", "\\'", "\\';", '";', "$$;", "');")),
    *("'", "''", "\\", "\\\\'", '"', '{"', "{}", "%", "%%", "%s", "%(p1)s", "%(p1", "$1", "$0", "${1}", "$body$", "$$"),
    *("/*", "--", "*/", "\t", "\x01", "\x7f", "\u202e", "é\U0001f525", "NULL", ":x", "?", "E'\\n'", " "),
]
SENT_AT = datetime(2026, 1, 2, tzinfo=UTC)
STATEMENTS = {
    *("enqueue_one", "enqueue_many", "enqueue_alike", "enqueue_conflicts"),
    *("insert_workflow", "workflow_name", "insert_nodes", "first_difference"),
    *("advance_ready", "advance_announce", "advance_enqueue", "advance_sources", "advance_context"),
    *("dependency_options", "note_reason", "fail_at_commit"),
}
PARENT = {"a" * 32: 1}


class Recorded:
    """A caller's connection that notes the names of the statements."""

    def __init__(self, connection: Any) -> None:
        self.names: set[str] = set()
        self._connection = connection

    async def fetch(self, query: str, *parameters: Any) -> Any:
        self.names.add(query.split(maxsplit=2)[1])
        return await self._connection.fetch(query, *parameters)

    async def fetchval(self, query: str, *parameters: Any) -> Any:
        return next(iter(await self.fetch(query, *parameters)), [None])[0]

    async def execute(self, query: str, *parameters: Any) -> None:
        await self.fetch(query, *parameters)


def options(text: str) -> str:
    """Task options with the text as it is and a trace, which is what lets the spans of dependencies be read."""
    return json.dumps({"text": text, "trace": {"traceparent": text}, "retry_policy": None}, ensure_ascii=False)


def request(text: str, task_id: str, **columns: Any) -> EnqueueRequest:
    """A send with this text wherever the statement takes one."""
    stored: dict[str, Any] = {
        **dict.fromkeys(("task_name", "enqueue_sha", "queue_name", "args_json", "kwargs_json", "unique_key"), text),
        "task_id": task_id,
        "task_options": options(text),
        "sent_at": SENT_AT,
        **columns,
    }
    return EnqueueRequest(**stored)


def plan(text: str, kwargs: str | None = None) -> WorkflowPlan:
    """Three READY nodes: with the results and the context of another one, plain, and with a child workflow."""

    def node(index: int, **columns: Any) -> NodePlan:
        given: dict[str, Any] = {
            "index": index,
            "node_id": f"{text}{index}",
            "task_name": text,
            "queue_name": text,
            "priority": 1,
            "kwargs_json": kwargs or json.dumps({text: text}),
            "dependencies": (),
            "args_from": {},
            "ctx_from": None,
            "allow_failed_deps": True,
            "join": "all",
            "min_success": None,
            "task_options": options(text),
            **columns,
        }
        return NodePlan(**given)

    reading = node(0, args_from={text: 1}, ctx_from=(text, f"{text}1"))
    nodes = (reading, node(1), node(2, sub_definition_key=text))
    return WorkflowPlan(text, text, text, 0, json.dumps({text: text}), nodes)


async def run_all(connection: Any) -> set[str]:
    """Run every statement with every text, and compare the answers; returns the names of the statements."""
    recorded = Recorded(connection)
    await drive(recorded, many([request(text, f"m{text}") for text in TEXTS]))
    for text in TEXTS:
        await _send(recorded, text)
        assert not (await create_workflow(recorded, plan(text), workflow_id=text)).existing  # type: ignore[arg-type]
        again = await create_workflow(recorded, plan(text), workflow_id=text)  # type: ignore[arg-type]
        assert (again.existing, again.other_name) == (True, None)
        assert await difference(recorded, plan(text), text) is None  # type: ignore[arg-type]
        other = await difference(recorded, plan(text, '{"x": 1}'), text)  # type: ignore[arg-type]
        assert other == f"other arguments for the node {text}0"
    return recorded.names


async def _send(connection: Recorded, text: str) -> None:
    first, own = request(text, text, queue_name=f"{text} "), EnqueueOutcome.CREATED
    # The key belongs to the task of the batch before.
    holder = Enqueued(f"m{text}", EnqueueOutcome.LIVE_DUPLICATE, text, text)
    assert await drive(connection, one(first)) == holder
    first = first._replace(unique_key=None)
    assert await drive(connection, one(first)) == Enqueued(text, own)
    assert await drive(connection, one(first)) == Enqueued(text, EnqueueOutcome.SAME)
    alike = [request(text, f"{side}{text}", unique_key=None) for side in "ab"]
    assert await drive(connection, many(alike)) == [Enqueued(each.task_id, own) for each in alike]


async def fail_with_all(connection: Any) -> set[str]:
    """Note every text as the reason of a failure; the transaction cannot be committed."""
    recorded = Recorded(connection)
    for text in TEXTS:
        await _fail(recorded, words=text)  # type: ignore[arg-type]
        assert await connection.fetchval("SELECT current_setting('horsies.failed_send')") == text
    return recorded.names


def expected() -> Iterator[tuple[str, ...]]:
    """The tasks that are meant, without those of nodes: their texts in the order of the columns of `STORED`."""
    for text in TEXTS:
        for task_id, key in ((f"m{text}", text), (text, None), (f"a{text}", None), (f"b{text}", None)):
            queue = f"{text} " if task_id == text else text
            yield task_id, text, text, queue, text, text, options(text), key  # type: ignore[misc]


STORED = """
SELECT id, task_name, enqueue_sha, queue_name, args, kwargs, task_options, unique_key
  FROM horsies_tasks WHERE NOT is_workflow_task ORDER BY id COLLATE "C"
"""


Work = Callable[[Any], Awaitable[set[str]]]


def use_django(database: str, **given: Any) -> Any:
    """Django's connection of this thread, to this database, with these options."""
    import django  # noqa: PLC0415 - a program imports this module where there is no psycopg
    from django.conf import settings  # noqa: PLC0415
    from django.db import connections  # noqa: PLC0415

    parts = urlsplit(database)
    query = {name: values[0] for name, values in parse_qs(parts.query).items()}
    config = {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": parts.path[1:],
        "USER": unquote(parts.username or ""),
        "PASSWORD": unquote(parts.password or ""),
        "HOST": query.get("host", parts.hostname or ""),
        "PORT": query.get("port", str(parts.port or "")),
        "OPTIONS": given,
    }
    if not settings.configured:
        settings.configure(DATABASES={"default": config}, USE_TZ=True)
        django.setup()
    connections.settings["default"].update(config)
    if hasattr(connections["default"], "settings_dict"):
        connections["default"].settings_dict.update(config)
    return connections["default"]
