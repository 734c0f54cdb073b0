"""Runs all checks on a database, and makes findings of the recovery report of its warnings, one for each check.

The report itself does not examine the database: an examination opens further connections and takes 0.1 to 0.3 s, ten
times as long as a report. The console examines it every few minutes, `horsies recovery ls` with `--doctor`.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from itertools import groupby
from operator import attrgetter
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Final

import asyncpg

from horsies.doctor import Check, CheckContext, CheckLine, CheckVerdict, checks
from horsies.domain.masking import mask
from horsies.domain.quantities import clock
from horsies.findings import Finding, FindingKind, PredictedAction, Severity
from horsies.store.connect import DatabaseUnavailable, transaction
from horsies.store.dedicated_connection import inspect_server
from horsies.store.schema import SchemaError, SchemaKind, SchemaState, inspect_schema
from horsies.store.schema.migrations import quoted
from horsies.store.statements import statement
from horsies.views import READER_SETTINGS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from horsies.config.app import AppConfig
    from horsies.store.connect import Database

# No statement of the doctor may block others: none waits for a lock, runs for long, or writes.
_LIMITS: Final = (("statement_timeout", "5s"), ("lock_timeout", "100ms"))
_SETTINGS: Final = (*READER_SETTINGS, *_LIMITS, ("default_transaction_read_only", "on"))
_MAX_CHECK_S: Final = 20.0
_USABLE: Final = frozenset({SchemaKind.CURRENT, SchemaKind.READ_ONLY, SchemaKind.DAMAGED})
_NOT_THERE: Final = (asyncpg.UndefinedTableError, asyncpg.UndefinedColumnError, asyncpg.UndefinedFunctionError)
_TOO_SLOW: Final = (asyncpg.QueryCanceledError, asyncpg.LockNotAvailableError, TimeoutError)
DATABASE = FindingKind(
    "database", 250, alert="horsies doctor: {name}", alerts="horsies doctor: {findings} checks, with {count} lines"
)
_SHOWN_OTHERWISE: Final = frozenset({"locks", "clocks", "recovery settings"})
"""The console has alerts of its own about locks, clocks and settings."""


@dataclass(frozen=True, slots=True)
class Examination:
    now: datetime
    lines: tuple[CheckLine, ...]

    def count(self, verdict: CheckVerdict) -> int:
        return sum(line.verdict is verdict for line in self.lines)


@cache
def all_checks() -> tuple[Check, ...]:
    """Return the checks of all modules of the package `checks`, in their order."""
    modules = (import_module(f"{checks.__name__}.{module.name}") for module in iter_modules(checks.__path__))
    return tuple(sorted((check for module in modules for check in module.CHECKS), key=lambda check: check.place))


async def examine(database: Database, config: AppConfig | None = None) -> Examination:
    """Run every check; one that cannot run reports `unknown` and the reason.

    Raise DatabaseUnavailable if there is no connection.
    """
    pooled, warnings = await inspect_server(database, durable=config is None or config.broker.durable)
    async with database.connected("doctor", settings=_LIMITS) as connection:
        schema = await _schema_of(connection)  # in a session that may write, if the role may
    async with database.connected("doctor", settings=_SETTINGS) as connection:
        async with transaction(connection):
            now, role, sees_all = await connection.fetchrow(statement(__name__, "doctor_examiner"))
        context = CheckContext(connection, database, config, schema, role, now, sees_all, pooled, tuple(warnings))
        found = [replace(line, check=check.name) for check in all_checks() for line in await _lines(check, context)]
    return Examination(now, tuple(found))


async def _schema_of(connection: asyncpg.Connection) -> SchemaState:
    """Return the schema's state; a FOREIGN one with the error if the role may not read it."""
    try:
        return await inspect_schema(connection)
    except SchemaError as error:
        return SchemaState(SchemaKind.FOREIGN, "public", 0, error.message, error.help_text or "")


async def _lines(check: Check, context: CheckContext) -> list[CheckLine]:
    if check.needs_tables and context.schema.kind not in _USABLE:
        return [CheckLine(CheckVerdict.UNKNOWN, context.schema.problem, context.schema.way_out or None)]
    try:
        async with asyncio.timeout(_MAX_CHECK_S):
            return [*await check.examine(context)]
    except asyncpg.InsufficientPrivilegeError as error:
        role, schema = quoted(context.role), quoted(context.schema.schema)
        grant = f"GRANT pg_monitor TO {role}; GRANT SELECT ON ALL TABLES IN SCHEMA {schema} TO {role}"
        return [CheckLine(CheckVerdict.UNKNOWN, f"role {context.role} may not look: {error}", grant)]
    except _NOT_THERE as error:
        return [CheckLine(CheckVerdict.UNKNOWN, f"{error}", context.schema.way_out or None)]
    except DatabaseUnavailable as error:  # a check that opens connections of its own
        return [CheckLine(CheckVerdict.UNKNOWN, error.message, error.help_text)]
    except _TOO_SLOW as error:
        if context.connection.is_closed():
            raise
        return [CheckLine(CheckVerdict.UNKNOWN, f"no answer in time: {mask(str(error)) or 'given up'}")]


def database_findings(found: Examination) -> list[Finding]:
    """Return a finding for each check with a line that warns or fails."""
    bad = [line for line in found.lines if line.verdict in (CheckVerdict.WARN, CheckVerdict.FAIL)]
    by_check = groupby((line for line in bad if line.check not in _SHOWN_OTHERWISE), attrgetter("check"))
    return [_finding(check, list(lines), found.now) for check, lines in by_check]


def _finding(check: str, lines: Sequence[CheckLine], now: datetime) -> Finding:
    first = next((line for line in lines if line.verdict is CheckVerdict.FAIL), lines[0])
    fails = first.verdict is CheckVerdict.FAIL
    more = f" (and {len(lines) - 1} more)" if lines[1:] else ""
    # A warning may stand for weeks; a verdict that is never healthy would be ignored.
    severity = Severity.NEEDS_ACTION if fails else Severity.NOTE
    return Finding(
        kind=DATABASE,
        target_kind="database",
        name=check,
        count=len(lines),
        evidence=f"{first.evidence}{more}",
        prediction=PredictedAction(f"nothing: `horsies doctor` {'fails' if fails else 'warns'}", severity),
        why=tuple(_why(lines, now)),
    )


def _why(lines: Sequence[CheckLine], now: datetime) -> Iterator[str]:
    for line in lines:
        yield f"{line.verdict.value}: {line.evidence}"
        if line.remedy:
            yield f"To mend it: {line.remedy}"
    yield f"Examined at {clock(now)}; `horsies doctor` examines it again."
