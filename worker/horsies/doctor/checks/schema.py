"""The schema: whether a worker could start on it, and what the names in our functions and statements mean.

A function or operator whose types fit a call better than PostgreSQL's own runs in its place, with the rights of the
caller. Our functions and calls are bound to PostgreSQL's; operators in statements cannot be, except by their schema.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from horsies.doctor import Check, CheckLine, CheckVerdict
from horsies.store.schema import LEDGER, SchemaKind
from horsies.store.schema.migrations import quoted
from horsies.store.statements import statement

if TYPE_CHECKING:
    from collections.abc import Iterable

    from horsies.doctor import CheckContext


_VERDICTS: Final = {SchemaKind.CURRENT: CheckVerdict.OK, SchemaKind.READ_ONLY: CheckVerdict.WARN}


async def _schema(context: CheckContext) -> Iterable[CheckLine]:
    state = context.schema
    return [CheckLine(_VERDICTS.get(state.kind, CheckVerdict.FAIL), state.problem, state.way_out or None)]


_MAX_ROWS: Final = 10


async def _search_path(context: CheckContext) -> Iterable[CheckLine]:
    name = context.schema.schema
    (schema,) = await context.fetch(statement(__name__, "doctor_search_path"), name)
    lines = [
        CheckLine(
            CheckVerdict.FAIL,
            f"function {row['name']} resolves names by the search path of each session",
            f"TRUNCATE {LEDGER} and run `horsies db upgrade`, which recreates it and keeps every row",
        )
        for row in await context.fetch(statement(__name__, "doctor_unbound_functions"), name, schema["path"])
    ]
    lines += [
        CheckLine(
            CheckVerdict.FAIL,
            f"{row['kind'].lower()} {row['name']} of role {row['owner']} can run in place of PostgreSQL's or ours, with"
            " the rights of the sender of a task",
            f"DROP {row['kind']} {row['name']}",
        )
        for row in await context.fetch(statement(__name__, "doctor_objects_of_others"), name, _MAX_ROWS)
    ]
    if schema["open"]:
        evidence = f"every role may create functions and operators in schema {name}, which others then run unawares"
        lines.append(CheckLine(CheckVerdict.WARN, evidence, f"REVOKE CREATE ON SCHEMA {quoted(name)} FROM PUBLIC"))
    return lines or [
        CheckLine(CheckVerdict.OK, f"our functions are bound; only granted roles may create in schema {name}")
    ]


CHECKS = (
    Check("schema", 10, _schema),
    Check("search path", 15, _search_path, needs_tables=True),
)
